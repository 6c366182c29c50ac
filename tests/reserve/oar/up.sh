# Makes an OAR of Debian's packages, with three nodes that are this machine: `up.sh FOLDER`.
#
# It is the first process of namespaces of mounts and processes. What it installs is in memory, above this machine's files;
# its network is its own once the packages are there. It prints `ready`, and ends with the test.
set -eu
mount -t tmpfs -o size=3g none "$1"
mkdir "$1/above" "$1/below" "$1/all"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/above,workdir=$1/below" "$1/all"
mount -t proc proc "$1/all/proc"
mount --rbind /dev "$1/all/dev"
cd "$1/all"
printf '#!/bin/sh\nexit 101\n' > usr/sbin/policy-rc.d  # no service starts by itself
chmod 755 usr/sbin/policy-rc.d
cat > start.sh <<'END'
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
hostname oar
printf '127.0.0.1 localhost oar\n127.0.0.11 n1\n127.0.0.12 n2\n127.0.0.13 n3\n' > /etc/hosts
mkdir -p /run/sshd /run/postgresql
chown postgres /run/postgresql
version=$(ls /usr/lib/postgresql)
su postgres -c "/usr/lib/postgresql/$version/bin/pg_ctl -D /var/lib/postgresql/$version/main -w -l /tmp/postgres \
    -o '-c config_file=/etc/postgresql/$version/main/postgresql.conf -c fsync=off' start"
# Control groups are not used: a node has none of its own.
sed -i 's/^DB_BASE_PASSWD=.*/DB_BASE_PASSWD="oar"/; s/^DB_BASE_PASSWD_RO=.*/DB_BASE_PASSWD_RO="oar_ro"/
    s/^JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD/#&/; s/^JOB_RESOURCE_MANAGER_FILE/#&/; s/^CPUSET_PATH/#&/' /etc/oar/oar.conf
oar-database --create --db-is-local
/usr/sbin/sshd -f /etc/oar/sshd_config
printf 'Host *\nForwardX11 no\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' > /var/lib/oar/.ssh/config
oar-server < /dev/null > /tmp/server 2>&1
for property in host cpu core; do oarproperty -a "$property" $([ "$property" != host ] || echo -c); done
for node in 1 2 3; do oarnodesetting -a -h "n$node" -p "host=n$node" -p "cpu=$node" -p "core=$node"; done
for node in 1 2 3; do oarnodesetting -s Alive -h "n$node"; done
useradd -m joe
echo ready
while :; do sleep 1; done
END
packages="oar-server oar-server-pgsql oar-user oar-user-pgsql oar-node postgresql libjson-perl"
DEBIAN_FRONTEND=noninteractive chroot . apt-get install -y --no-install-recommends $packages
exec unshare --net --uts chroot . sh /start.sh
