# loopback.sh: for scripts that talk to servers of this machine: skips them where they cannot.
#
#     source tests/support/loopback.sh
#     need_loopback
#
# A namespace or container without a loopback interface refuses each connection with "Network is
# unreachable"; a closed port of one that is up, with "Connection refused".

has_loopback() {
    local said
    said=$( (LC_ALL=C exec 3<> /dev/tcp/127.0.0.1/1) 2>&1 || true)
    [[ $said != *unreachable* ]]
}

need_loopback() {
    has_loopback || { echo "skipped: the loopback interface is down"; exit 77; }
}
