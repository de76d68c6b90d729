#ps1_sysnative
# n-1 joins its cluster at its first boot. Keep this secret: it has tokens.
$ErrorActionPreference = 'Stop'
$dir = 'C:\ProgramData\nodejoin-first-boot'
New-Item -ItemType Directory -Force $dir | Out-Null
icacls.exe $dir /inheritance:r /grant:r '*S-1-5-18:(OI)(CI)F' '*S-1-5-32-544:(OI)(CI)F' | Out-Null
if ($LASTEXITCODE -ne 0) { throw 'the folder of the first boot cannot be closed' }
[IO.File]::WriteAllBytes("$dir\join.json", [Convert]::FromBase64String('eyJ2ZXJzaW9uIjoxLCJub2RlIjoibi0xIiwiZXhwaXJlcyI6IjIwMjYtMDEtMDJUMDM6MDQ6MDVaIiwiYnVuZGxlIjp7ImZyb20iOiJodHRwczovL2ZpbGVzLmV4YW1wbGUvam9pbi9wcm9kLnRhciIsInNoYTI1NiI6ImFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWIifSwic2VydmVyIjoiaHR0cHM6Ly8xMC4wLjAuMTA6NjQ0MyIsImNhIjoiLS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tXG4uLi5cbiIsInRva2VuIjoiYWJjZGVmLjAxMjM0NTY3ODlhYmNkZWYiLCJhY2NvdW50IjoiZTMwLmUzMC5lMzAifQo='))
Set-Content -Encoding ASCII "$dir\run.ps1" @'
# Joins this machine to its cluster, once. nodejoin user-data wrote this for n-1.
$ErrorActionPreference = 'Stop'
$log = "$env:ProgramData\nodejoin-first-boot.log"
$code = 1
Set-Location $PSScriptRoot
try {
  if (-not (Test-Path nodejoin.exe)) {
    for ($tries = 1; ; $tries++) {
      curl.exe --fail --silent --location --connect-timeout 30 --output nodejoin.part 'https://files.example/join/nodejoin'
      if ($LASTEXITCODE -eq 0) { break }
      if ($tries -eq 40) { throw "nodejoin cannot be fetched: curl.exe ended with $LASTEXITCODE" }
      Start-Sleep -Seconds 15
    }
    if ((Get-FileHash -Algorithm SHA256 nodejoin.part).Hash -ne 'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd') {
      throw 'nodejoin has another digest than the user data says; this machine does not run it.'
    }
    Move-Item nodejoin.part nodejoin.exe
  }
  cmd.exe /c "nodejoin.exe first-boot join.json >> `"$log`" 2>&1"
  $code = $LASTEXITCODE
} catch {
  Add-Content $log $_
}
if ($code -eq 6) { # a reboot is pending; the task goes on after it
  shutdown.exe /r /t 5
  exit 0
}
Set-Location $env:SystemRoot
Remove-Item -Recurse -Force $PSScriptRoot
schtasks.exe /delete /f /tn nodejoin-first-boot | Out-Null
exit $code
'@
$run = "powershell.exe -NoProfile -ExecutionPolicy Bypass -File $dir\run.ps1"
schtasks.exe /create /f /tn nodejoin-first-boot /sc onstart /ru SYSTEM /rl highest /tr $run | Out-Null
if ($LASTEXITCODE -ne 0) { throw 'the task of the first boot cannot be made' }
schtasks.exe /run /tn nodejoin-first-boot
