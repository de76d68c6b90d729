$ErrorActionPreference = "Stop"
$FileContent = Get-Content -Path "C:/var/lib/kubelet/kubeadm-flags.env" -ErrorAction SilentlyContinue
$KubeletArgs = "$FileContent".TrimStart("KUBELET_KUBEADM_ARGS=").Trim('"')
$node = "${node_name}"
$cmd = "C:/k/kubelet.exe $KubeletArgs --config=C:/k/kubelet-config.yaml --bootstrap-kubeconfig=C:/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=C:/etc/kubernetes/kubelet.conf --hostname-override=$node --node-ip=${node_ip} --log-dir=C:/var/log/kubelet --v=2"
Write-Output "starting kubelet ${kube_version}"
Invoke-Expression $cmd
