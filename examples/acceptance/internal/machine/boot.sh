# Makes a machine out of this one's files and becomes its process 1, in namespaces of
# its own. $1 folder for what differs, $2 name, $3 "systemd" or "". Nothing that it
# mounts or writes is seen outside.
set -eu
dir=$1 name=$2 init=$3
root=$dir/root
mount --make-rprivate /
mount -t overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" overlay "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
for d in run tmp var/tmp dev sys/fs/cgroup; do mount -t tmpfs -o mode=755 tmpfs $d; done
chmod 1777 tmp var/tmp
mount --bind "$dir/lib" var/lib
for n in null zero full random urandom tty kmsg fuse; do
	if [ -e /dev/$n ]; then cp -a /dev/$n dev/$n; fi
done
mkdir dev/pts dev/shm dev/mqueue run/lock
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# The same hierarchies of control groups as outside, each from this machine's group on.
while IFS=' ' read -r _ at type options _; do
	case $at in
	/sys/fs/cgroup) [ "$type" = tmpfs ] || mount -t "$type" cgroup sys/fs/cgroup ;;
	/sys/fs/cgroup/*)
		mkdir -p ".$at"
		if [ "$type" = cgroup2 ]; then mount -t cgroup2 cgroup2 ".$at"; else
			options=$(echo "$options" | tr , '\n' | grep -vxE 'rw|ro|nosuid|nodev|noexec|relatime|noatime|xattr|release_agent=.*' | paste -sd,)
			case $options in *name=*) options=none,$options ;; esac
			mount -t cgroup -o "$options" cgroup ".$at"
		fi ;;
	esac
done < /proc/mounts
# What lies on the machine when it boots for the first time: of this one's services none
# starts, and nothing sets what all share. What tests or a node have left here before is
# not there.
if [ ! -e "$dir/booted" ]; then
	cp -a /var/lib/systemd /var/lib/dbus var/lib 2>/dev/null || true
	echo "$name" > etc/hostname
	# What the shell of this machine's root starts (version managers that take a lock) is not a part of the test.
	rm -f root/.bashrc root/.bash_profile root/.bash_login root/.profile
	rm -rf etc/systemd/system/*.wants etc/cni etc/containerd etc/kubernetes opt/cni opt/containerd root/.nodejoin var/log/pods var/log/containers usr/libexec/kubernetes etc/sysctl.d/* usr/lib/sysctl.d/*
	for u in systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-modules-load.service systemd-remount-fs.service \
		systemd-udevd.service systemd-logind.service getty.target systemd-timesyncd.service systemd-networkd.service systemd-resolved.service \
		systemd-update-utmp.service sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount dev-hugepages.mount; do
		ln -sfn /dev/null etc/systemd/system/$u
	done
	# The kernel's log is that of all machines, and of this one.
	mkdir -p etc/systemd/journald.conf.d
	printf '[Journal]\nReadKMsg=no\n' > etc/systemd/journald.conf.d/kernel.conf
	touch "$dir/booted"
fi
hostname "$(cat etc/hostname)"
mkdir -p oldroot
pivot_root . oldroot
cd /
umount -l oldroot
rmdir oldroot
mount --make-rshared /
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ "$init" = systemd ]; then
	exec env -i container=nodejoin PATH=$PATH /lib/systemd/systemd --unit=multi-user.target --show-status=0 --log-target=journal
fi
echo up > /run/machine-up
while :; do sleep 3600 & wait $!; done # reaps whatever is left to it
