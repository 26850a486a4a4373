# shellcheck shell=bash disable=SC2154 # The scripts that have this part omit this line.
command -v torchrun >/dev/null || { echo "@name@: torchrun is not on the PATH: activate the environment with PyTorch" >&2; exit 2; }
resolves() { # numeric addresses, too; some systems have no getent
  timeout 10 getent ahosts "$1" >/dev/null 2>&1 ||
    timeout 10 python3 -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1" >/dev/null 2>&1
}
# torchrun would try for 10 minutes.
resolves "$master" || {
  echo "@name@: the address of rank 0, '$master', does not resolve: pass --hosts to dtfm-export, or add it to /etc/hosts" >&2
  exit 2
}
