@rem Runs once, as administrator, at the end of an unattended installation (vm.sh).
powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\OEM\sshd.ps1 -Key C:\OEM\key.pub > C:\OEM\sshd.log 2>&1
