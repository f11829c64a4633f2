# What runs before the commands of a page: functions for programs that go on, ask, or do not exist here.
set -o pipefail
started=()
if grep -qs GATEHOUSE_ADMIN_TOKEN gatehouse.yaml; then export GATEHOUSE_ADMIN_TOKEN=$SECRET; fi

# background LINE COMMAND... runs a command until the page ends, and returns when it has printed what matches LINE.
background() {
  log=$(mktemp "$OUT/log.XXXXXX")
  command "${@:2}" >"$log" 2>&1 </dev/null &
  started+=($!)
  prints $! "$log" 1 "$1" || { cat "$log" >&2; return 1; }
}

# prints PROCESS LOG BYTE LINE waits until a process has printed a line to its log, from a byte on.
prints() { grep -q -m 1 "$4" < <(tail --pid="$1" -c "+$3" -f "$2"); }

# finish stops what runs, what asks the gateway before it, and says what has not ended well.
finish() {
  local i
  for ((i = ${#started[@]} - 1; i >= 0; i--)); do
    kill "${started[i]}" 2>/dev/null && { wait "${started[i]}" || echo "exit code $? of what ran until the end"; }
  done
  return 0
}

gatehouse() {
  case " $* " in
    *" serve "*) background msg=serving gatehouse "$@" && gateway=$log && ready ;;
    *" approvals "* | *" approve "* | *" refuse "*) # with an access token of their own
      local GATEHOUSE_ADMIN_TOKEN=$TOKEN
      if [[ $* == *--follow* ]]; then background . gatehouse "$@"; else command gatehouse "$@"; fi ;;
    *" --follow "*) background . gatehouse "$@" ;;
    *" key new "*) # puts the key where pages say that it is, and has the gateway read its file at once
      command gatehouse "$@" | tee "$OUT/key" && GATEHOUSE_KEY=$(head -n 1 "$OUT/key") && reload ;;
    *" state import "*)
      [[ $* == *--replace* ]] || rm -f var/lib/gatehouse/state.db # which is empty then
      command gatehouse "$@" ;;
    *" init "*) rm -f gatehouse.yaml && command gatehouse "$@" && sed -i "s/:8080/:$PORT/; s/:9090/:$ADMIN_PORT/" gatehouse.yaml ;;
    *" --stdio "*) command gatehouse "$@" </dev/null ;;
    *) command gatehouse "$@" ;;
  esac
}

# ready waits until the gateway has reached its issuer.
ready() {
  if grep -q ":$ADMIN_PORT" gatehouse.yaml; then
    until command curl -sf -o "$OUT/ready" "http://127.0.0.1:$ADMIN_PORT/readyz"; do
      kill -0 "${started[-1]}" && sleep 0.1 || return
    done
  fi
}

reload() {
  [ -n "$gateway" ] || return 0
  local from=$(($(stat -c %s "$gateway") + 1))
  kill -HUP "${started[0]}" && prints "${started[0]}" "$gateway" "$from" "configuration reloaded"
}

systemctl() {
  case $* in
    "stop gatehouse") kill "${started[0]}" && wait "${started[0]}" ;;
    "restart gatehouse") gatehouse serve -c gatehouse.yaml ;; # it was stopped before
    *) return 1 ;;
  esac
}

systemd-socket-activate() { background Listening systemd-socket-activate "$@"; }
pbpaste() { printf %s "$CLIPBOARD"; }
# An answer that is an error is a failure, unless the page shows the status.
curl() { if [[ $* == *http_code* || $1 == -f* ]]; then command curl "$@"; else command curl --fail-with-body "$@"; fi; }

# mcp METHOD PARAMS... sends a request as alice.
mcp() {
  command curl -sS --fail -o "$OUT/answer" "http://127.0.0.1:$PORT/mcp" -H "Authorization: Bearer $ALICE" \
    -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "${@:3}" \
    -d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}"
}

admin() { command curl -sS --fail -H "Authorization: Bearer $1" "http://127.0.0.1:$ADMIN_PORT/api/v1/$2"; }
page() { command curl -sS --fail -L -c "$OUT/cookies" -b "$OUT/cookies" -H 'Sec-Fetch-Site: same-origin' "$@"; }

# seed has alice sign in, also at the wiki, and call tools, of which one waits for an approver. It sets variables to the
# ids that come of it.
seed() {
  local at=https://mcp.example.com/account proof link session
  proof=$(page $at | grep -o -m 1 'name="proof" value="[^"]*' | cut -d '"' -f 4)
  link=$(page $at/sign-in -d "proof=$proof&server=wiki" | grep -o 'class="button main" href="[^"]*' | cut -d '"' -f 4)
  page -o "$OUT/signed-in" "$(sed 's/&amp;/\&/g' <<<"$link")" || return
  mcp initialize '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"seed","version":"1"}}' -D "$OUT/head"
  session=$(grep -i ^mcp-session-id: "$OUT/head" | tr -d '\r')
  mcp tools/call '{"name":"crm__export","arguments":{}}' -H "$session" || return
  mcp tools/call '{"name":"crm__drop_table","arguments":{}}' -H "$session" || return
  mcp tools/call '{"name":"crm__pay","arguments":{}}' -H "$session" 2>"$OUT/pay" & # until the gateway stops, if not before
  until CALL=$(admin "$TOKEN" approvals | jq -er '.approvals[-1].id'); do kill -0 "${started[0]}" && sleep 0.1 || return; done
  DIGEST=$(admin "$TOKEN" approvals | jq -er '.approvals[-1].digest') || return
  read -r DONE SESSION < <(admin "$SECRET" 'decisions?user=alice&name=crm/export' | jq -r '.decisions[0] | "\(.id) \(.session)"')
  PIN=$(admin "$SECRET" pins | jq -r '.pins[] | select(.upstream == "crm" and .name == "export").digest')
}
