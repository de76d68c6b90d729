$ErrorActionPreference = "Stop"
$env:KUBE_NETWORK = "flannel.4096"
$sourceVip = "${node_ip}"
Import-Module C:/k/hns.psm1
while (-Not (Get-HnsNetwork | Where-Object Name -eq $env:KUBE_NETWORK)) { Start-Sleep -Seconds 1 }
C:/k/kube-proxy.exe --config=C:/k/kube-proxy-config.yaml --hostname-override=${node_name} --source-vip=$sourceVip --v=2
