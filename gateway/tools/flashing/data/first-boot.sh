#!/bin/sh
# The first boot of a gateway whose card `hedgerow flash` made; nothing here needs the internet.
#
#   first-boot.sh begin      from cloud-init, at each boot until all is done, or from rpi-preseed
#   first-boot.sh prepare    from firstrun.sh: the next boot goes on
#   first-boot.sh install    from the unit that these two leave, until it has worked out
#
# Power may be lost anywhere: each step is done again, or was marked when it had been done.
set -eu
umask 022

boot=${HEDGEROW_BOOT:-/boot/firmware}
kit=$boot/hedgerow
log=$boot/hedgerow-first-boot.log
state=/var/lib/hedgerow-first-boot
own=/usr/local/lib/hedgerow-first-boot.sh
unit=hedgerow-first-boot.service
opt=/opt/hedgerow
etc=/etc/hedgerow
network=/etc/hedgerow-network
log_bytes=65536

setting() { sed -n "s/^$1=//p" "$kit/settings"; }

mark() { sync; : >"$state/$1"; sync; }

prepare() {
    mkdir -p "$state"
    # A Pi has no clock that runs without power: certificates made on another machine are not yet
    # valid in its year. It is never earlier than when its card was made.
    made_s=$(setting flashed_at)
    [ "$(date +%s)" -ge "$made_s" ] || date -s "@$made_s" >/dev/null || true
    if [ -e "$state/begun" ]; then
        # The boot before was cut off: what cloud-init has noted as done may be half done. But the
        # keys that the machine showed to ssh stay.
        for done in /var/lib/cloud/instance/sem/config_*; do
            case $done in */config_ssh | */config_ssh.*) ;; *) rm -f "$done" ;; esac
        done
    fi
    if [ -d "$kit/network" ]; then
        # Certificates and keys of 802.1X, which the connections name.
        install -d -m 0700 "$network"
        install -m 0600 "$kit/network"/* "$network"
    fi
    mkdir -p "$(dirname "$own")"
    cp "$kit/first-boot.sh" "$own.new"
    mv "$own.new" "$own"
    cat >"/etc/systemd/system/$unit.new" <<END
[Unit]
Description=First boot of a Hedgerow gateway
After=network.target cloud-init.service cloud-init-network.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
Environment=HEDGEROW_BOOT=$boot
ExecStart=/bin/sh $own install
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
END
    mv "/etc/systemd/system/$unit.new" "/etc/systemd/system/$unit"
    systemctl enable "$unit"
    mark begun
}

say() { printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*"; }

step=
begin_step() { step=$1; say "$step"; }

ended() {
    code=$?
    [ "$code" = 0 ] || say "FAILED: $step (exit code $code; the lines above say why); it is tried again"
    sync
}

install_release() {
    release=$(setting release)
    folder=$opt/releases/$release
    if [ ! -e "$folder/installed" ]; then
        python=$(python3 -c 'import platform, struct, sys
print("cp%d%d-%s-%d" % (*sys.version_info[:2], platform.machine(), 8 * struct.calcsize("P")))')
        if [ "$python" != "$(setting kind)-64" ]; then
            say "the wheels are for $(setting kind) (64 bits), and this system has $python"
            return 1
        fi
        rm -rf "$folder"
        mkdir -p "$folder/wheels"
        printf '%s  %s\n' "$(setting wheels_sha256)" "$kit/wheels.tar" | sha256sum --check --quiet
        tar -xf "$kit/wheels.tar" --no-same-owner -C "$folder/wheels"
        if python3 -c 'import ensurepip' 2>/dev/null; then
            python3 -m venv "$folder"
            set -- "$folder/bin/python" -m pip
        else
            python3 -m venv --without-pip "$folder"
            set -- "$folder/wheels"/pip-*.whl
            if [ ! -e "$1" ]; then
                say "this image has no python3-venv, and the archive of wheels no pip"
                return 1
            fi
            set -- "$folder/bin/python" "$1/pip"
        fi
        "$@" install --quiet --no-cache-dir --no-index --disable-pip-version-check \
            --find-links "$folder/wheels" hedgerow
        "$folder/bin/hedgerow" --version
        rm -rf "$folder/wheels"
        # What the next release differs from can come in its place.
        cp "$kit/wheels.tar" "$folder/wheels.tar"
        chmod -R go+rX "$folder"
        sync
        printf '%s\n' "$release" >"$folder/installed"
    fi
    ln -sfn "$folder" "$opt/venv.new"
    mv -T "$opt/venv.new" "$opt/venv"
    install_starter
}

install_starter() { # what the unit starts the release by, and a copy of its interpreter for when Debian has another
    install -d -m 0755 "$opt/interpreter"
    for script in interpreter.sh whole_release.sh; do
        install -m 0755 "$kit/$script" "$opt/interpreter/$script.new"
        mv "$opt/interpreter/$script.new" "$opt/interpreter/$script"
    done
    "$opt/interpreter/interpreter.sh" keep "$opt" "$folder" ||
        say "there is no copy of the interpreter (the line above says why): the gateway starts without"
}

configure() {
    [ ! -e "$state/configured" ] || return 0
    if [ "$(setting first_start)" = yes ]; then
        # It has no owner yet: a browser on its link makes it a gateway.
        install -d -m 0750 -o hedgerow -g hedgerow "$etc"
        for name in hedgerow.service hedgerow-first-start.service; do
            install -m 0644 "$kit/$name" "/etc/systemd/system/$name"
        done
        mark configured
        return 0
    fi
    install -d -m 0750 -o root -g hedgerow "$etc"
    # The names of the kit's files are letters, digits, dots and hyphens.
    (cd "$kit/etc" && find . -type d) | while read -r folder; do
        install -d -m 0750 -o root -g hedgerow "$etc/$folder"
    done
    (cd "$kit/etc" && find . -type f) | while read -r file; do
        case $file in
        hedgerow.toml | access.toml) install -m 0640 -o root -g hedgerow "$kit/etc/$file" "$etc/$file" ;;
        *) install -m 0600 -o hedgerow -g hedgerow "$kit/etc/$file" "$etc/$file" ;;
        esac
    done
    # Where the configuration has sensor classes looked for, though there may be none.
    sensors=$(sed -n 's/^sensors_dir = "\(.*\)"$/\1/p' "$etc/hedgerow.toml")
    [ -z "$sensors" ] || install -d -m 0750 -o root -g hedgerow "$sensors"
    # A gateway that is enrolled by a token renews its certificate there.
    [ ! -e "$kit/token" ] || install -d -m 0770 -o root -g hedgerow "$etc/tls"
    install -m 0644 "$kit/hedgerow.service" /etc/systemd/system/hedgerow.service
    mark configured
}

enrol() {
    [ -e "$kit/token" ] && [ ! -e "$etc/tls/gateway.pem" ] || return 0
    runuser --user hedgerow -- "$opt/venv/bin/hedgerow" keys enrol --to "$etc/tls" - <"$kit/token"
}

scrub() {
    # With it cloud-init would look for what is taken away here.
    [ ! -d /etc/cloud ] || : >/etc/cloud/cloud-init.disabled
    rm -f "$kit/wheels.tar"
    for file in "$boot/firstrun.sh" "$boot/network-config" "$boot/user-data"; do
        [ ! -e "$file" ] || shred --iterations=1 "$file"
    done
    [ ! -d "$kit" ] || find "$kit" -type f -exec shred --iterations=1 {} +
    sync
    rm -rf "$kit" "$boot/firstrun.sh"
    for name in network-config user-data; do
        if [ -e "$boot/$name" ]; then
            printf '#cloud-config\n# The first boot is over, and cloud-init is off (/etc/cloud/cloud-init.disabled).\n' \
                >"$boot/$name"
        fi
    done
}

run_install() {
    if [ -e "$log" ] && [ "$(wc -c <"$log")" -gt "$log_bytes" ]; then
        tail -c $((log_bytes / 2)) "$log" >"$log.new"
        mv "$log.new" "$log"
    fi
    exec >>"$log" 2>&1
    trap ended EXIT
    if [ ! -e "$state/runs" ]; then
        say "the first boot of $(setting id)"
        if [ "$(setting modem)" = yes ] && ! command -v mmcli >/dev/null &&
            ! grep -q "LTE stays off" "$log"; then
            say "LTE stays off, for this image has no ModemManager: sudo apt-get install modemmanager"
        fi
        begin_step "make the service's user"
        id hedgerow >/dev/null 2>&1 ||
            useradd --system --user-group --home-dir /var/lib/hedgerow --no-create-home \
                --shell /usr/sbin/nologin hedgerow
        begin_step "install the release"
        install_release
        begin_step "write the configuration"
        configure
        begin_step "get a certificate with the token"
        enrol
        service=hedgerow.service
        if [ "$(setting first_start)" = yes ]; then
            service=hedgerow-first-start.service
        else
            begin_step "check the configuration"
            runuser --user hedgerow -- "$opt/venv/bin/hedgerow" check --config "$etc/hedgerow.toml"
        fi
        begin_step "start the service"
        systemctl daemon-reload
        systemctl enable "$service"
        if ! systemctl restart "$service"; then
            # Whoever has the card alone can't ask the journal.
            journalctl --unit "$service" --lines 12 --no-pager --output cat || true
            false
        fi
        mark runs
    fi
    begin_step "take the secrets off the boot partition"
    scrub
    begin_step "end the first boot"
    mark done
    systemctl disable "$unit"
    rm -f "/etc/systemd/system/$unit" "$own"
    say "done: the gateway runs"
}

case ${1:-} in
begin)
    [ ! -e "$state/done" ] || exit 0
    first=yes
    [ ! -e "$state/begun" ] || first=
    prepare
    if [ -n "$first" ] && [ -d "$network" ]; then
        # It may have looked for the files before they were there, and would try again after minutes.
        systemctl try-restart --no-block NetworkManager.service || true
    fi
    systemctl daemon-reload
    systemctl start --no-block "$unit"
    ;;
prepare) [ -e "$state/done" ] || prepare ;;
install) run_install ;;
*)
    echo "first-boot.sh: begin, prepare or install" >&2
    exit 2
    ;;
esac
