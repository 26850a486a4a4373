#!/usr/bin/env bash
# scripts/Containerfile builds an image that plans as an ordinary user: container.sh SOURCE_FOLDER. Skipped (77) without podman,
# or if a clean Debian cannot be set up, which replaces the base image of a registry.
# shellcheck source=tests/package/clean_debian.sh
. "$(dirname "${BASH_SOURCE[0]}")/clean_debian.sh"

source=$(realpath "$1")
command -v podman >/dev/null || skip "podman is not installed"
make_clean ca-certificates
connect_clean
in_clean update-ca-certificates >"$scratch/log" 2>&1

# Images and containers are removed with $scratch. A test machine may be a container itself, in which limits cannot be raised
# and only runc can manage control groups.
cat >"$scratch/containers.conf" <<END
[containers]
netns = "host"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
$(! command -v runc >/dev/null || echo 'runtime = "runc"')
END
export CONTAINERS_CONF=$scratch/containers.conf
podman=(podman --root "$scratch/images" --runroot "$scratch/run")
tar -C "$clean" -c . | "${podman[@]}" import -q - localhost/base >"$scratch/log" 2>&1 || skip "podman: $(tail -1 "$scratch/log")"
"${podman[@]}" run --rm localhost/base true >"$scratch/log" 2>&1 || skip "podman: $(tail -1 "$scratch/log")"
rm -rf --one-file-system "$clean"
"${podman[@]}" build --build-arg BASE=localhost/base -t dtfm -f "$source/scripts/Containerfile" "$source" \
  >"$scratch/log" 2>&1 || { tail -40 "$scratch/log"; fail "podman build"; }

in_container() { "${podman[@]}" run --rm --network none -v "$source/topologies:/work:ro" "$@"; }
in_container dtfm regional.yaml --evaluations 100 --quiet >"$scratch/out"
grep -q '^regional: 64 devices' "$scratch/out" || fail "dtfm-plan printed $(head -3 "$scratch/out")"
[[ $(in_container --entrypoint id dtfm -un) == dtfm ]] || fail "the programs run as root"
in_container --entrypoint python dtfm -c 'import dtfm; print(dtfm.score)' >/dev/null || fail "the package cannot be imported"
mapfile -t programs < <(sed -n 's/^\(dtfm-[a-z]*\) = .*/\1/p' "$source/pyproject.toml")
[[ ${#programs[@]} -gt 0 ]] || fail "pyproject.toml lists no programs"
for program in "${programs[@]}"; do
  in_container --entrypoint "$program" dtfm --version >/dev/null || fail "$program"
done
echo "all passed: $("${podman[@]}" images --format '{{.Size}}' dtfm)"
