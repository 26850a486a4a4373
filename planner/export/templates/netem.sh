#!/usr/bin/env bash
# Shapes what machine @machine@ sends to the other machines of a plan, as in a topology (Linux, iproute2, as root):
#   netem-@machine@.sh up|down|show [INTERFACE]    default: the one that routes to the first machine
# Each class is a destination, or several that share a rate, and applies first the rate, then the delay. A rate below 1 kbit/s
# in the topology is 1 here, because tc rejects 0; a rate above 100 Gbit/s, or none, is 100000000, in effect no limit.
set -euo pipefail
links=( # rate in kbit/s, delay in microseconds, queue in packets, machines
@links@
)
uplink=@uplink@ # kbit/s, limit on all classes together
# Bytes that a class sends per turn when several borrow: about 40 frames. HTB's default is the rate / 10 (r2q), which from
# 16 Mbit/s on exceeds the allowed 200000, and tc warns of each such class.
quantum=60000

address_of() { # MACHINE
  getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }'
}
fail() {
  echo "netem-@machine@.sh: $1" >&2
  exit 2
}

command=${1-} interface=${2-}
[[ $command =~ ^(up|down|show)$ ]] || fail "expected up, down or show, and optionally an interface"
if [ -z "$interface" ]; then
  read -r _ _ _ first _ <<<"${links[0]}"
  ip=$(address_of "$first" || true)
  [ -n "$ip" ] || fail "cannot resolve the address of machine '$first'; name the interface"
  interface=$(ip -o route get "$ip" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
fi

undo() { tc qdisc del dev "$interface" root 2>/dev/null || true; }

up() {
  undo
  trap 'undo; exit 130' INT TERM
  trap 'undo; echo "netem-@machine@.sh: tc failed (not root, or no sch_htb or sch_netem in the kernel?); all changes are undone" >&2' ERR
  tc qdisc add dev "$interface" root handle 1: htb # other traffic is not shaped
  tc class add dev "$interface" parent 1: classid 1:1 htb rate "${uplink}kbit" quantum "$quantum"
  local number=1 share link rate delay queue machines machine ip class
  for link in "${links[@]}"; do
    read -r rate delay queue machines <<<"$link"
    ((number += 1))
    class=$(printf '%x' "$number")
    # A class may always send at its rate and borrow up to its ceil: the rates of all classes must not exceed the uplink.
    share=$((uplink / ${#links[@]} > 0 ? uplink / ${#links[@]} : 1))
    tc class add dev "$interface" parent 1:1 classid "1:$class" htb rate "$((rate < share ? rate : share))kbit" \
      ceil "${rate}kbit" quantum "$quantum"
    tc qdisc add dev "$interface" parent "1:$class" handle "$class:" netem delay "${delay}us" limit "$queue"
    for machine in $machines; do
      ip=$(address_of "$machine" || true)
      [ -n "$ip" ] || { undo; fail "cannot resolve the address of machine '$machine'"; }
      tc filter add dev "$interface" parent 1: protocol ip prio 1 u32 match ip dst "$ip/32" flowid "1:$class"
    done
  done
}

case $command in
  up) up ;;
  down) tc qdisc del dev "$interface" root ;;
  show)
    tc -s class show dev "$interface"
    tc qdisc show dev "$interface"
    ;;
esac
