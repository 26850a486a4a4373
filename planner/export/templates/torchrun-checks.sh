# shellcheck shell=bash disable=SC2154 # The scripts that have this part omit this line.
fail() {
  echo "@name@: $1" >&2
  exit 2
}
command -v torchrun >/dev/null || fail "torchrun is not on the PATH: activate the environment with PyTorch"
resolves() { # numeric addresses, too; some systems have no getent
  timeout 10 getent ahosts "$1" >/dev/null 2>&1 ||
    timeout 10 python3 -c 'import socket, sys; socket.getaddrinfo(sys.argv[1], None)' "$1" >/dev/null 2>&1
}
others=$(for agent in "${agents[@]}"; do read -r _ address _ <<<"$agent" && echo "$address"; done | sort -u | grep -cvxF -- "$machine" || true)
if [ "$others" -eq 0 ]; then
  master=127.0.0.1
else
  resolves "$master" || fail "the address of rank 0, '$master', does not resolve: pass --hosts to dtfm-export, or add it to /etc/hosts"
  echo "@name@: start it on the other machines, too ($others, listed in README.md), within $limit s (DTFM_START_TIMEOUT)" >&2
fi
# A machine that is up refuses connections until rank 0 listens.
until [ "$machine" = "$master" ] || [ "$others" -eq 0 ] ||
  problem=$(LC_ALL=C timeout 10 bash -c ": <>'/dev/tcp/$master/$port'" 2>&1); do
  [[ $problem == *refused* ]] ||
    fail "cannot connect to rank 0, '$master' port $port: that machine is off, its address is wrong (pass --hosts to dtfm-export), or a firewall blocks the port (--port)"
  [ "$SECONDS" -lt "$limit" ] || fail "rank 0 does not listen on '$master' port $port after $limit s: start @name@ there, too"
  sleep 1
done
