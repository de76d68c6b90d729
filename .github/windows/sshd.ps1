# Installs and starts Microsoft's OpenSSH server and lets a public key log in as an administrator.
# For Windows PowerShell 5.1 and later, elevated. Prints the start type that sshd had: it is a question of its own.
param([Parameter(Mandatory = $true)][string]$Key)
$ErrorActionPreference = 'Stop'

if (-not (Get-Service -Name sshd -ErrorAction SilentlyContinue)) {
    Get-WindowsCapability -Online -Name 'OpenSSH.Server*' | Where-Object { $_.State -ne 'Installed' } |
        ForEach-Object { Add-WindowsCapability -Online -Name $_.Name } | Out-Null
}
Get-CimInstance -ClassName Win32_Service -Filter "Name='sshd'" | Format-List Name, StartMode, State
Set-Service -Name sshd -StartupType Automatic
Start-Service -Name sshd # it makes its folder when it first starts

$file = Join-Path $env:ProgramData 'ssh\administrators_authorized_keys'
Copy-Item -Path $Key -Destination $file -Force
# Administrators and SYSTEM by their SIDs: their names depend on the language.
icacls.exe $file /inheritance:r /grant '*S-1-5-32-544:F' /grant '*S-1-5-18:F'
if ($LASTEXITCODE -ne 0) { throw "icacls: $LASTEXITCODE" }

Get-NetFirewallRule -Name 'OpenSSH-Server-In-TCP' -ErrorAction SilentlyContinue | Format-List Name, Enabled, Profile
if (-not (Get-NetFirewallRule -Name 'nodejoin-ssh-test' -ErrorAction SilentlyContinue)) {
    New-NetFirewallRule -Name 'nodejoin-ssh-test' -DisplayName 'nodejoin-ssh-test' -Direction Inbound -Protocol TCP `
        -LocalPort 22 -Action Allow | Out-Null
}
