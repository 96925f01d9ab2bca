#!/bin/sh
# Stores what shell commands change. Claude Code runs this before and after tool calls:
#   checkpoint.sh pre|post PYTHON < the input of the hook
# Usually nothing changed, and that is found out here, because starting Python takes
# longer than all of this. checkpoint_writer.py does the rest. Nothing is printed, and
# errors are ignored, because a hook must not disturb a session.

event=$1
python=$2
export GIT_OPTIONAL_LOCKS=0 LC_ALL=C
umask 077
newline='
'
input=$(dd bs=65536 count=1 2>/dev/null)

# Sets $value to a string of the input. Texts of Claude follow these fields, and quotes in
# them are escaped, so the first match is the field itself.
field() {
  value=
  case $input in *"\"$1\":\""*) value=${input#*"\"$1\":\""} ; value=${value%%\"*} ;; esac
  case $value in *\\*) value= ;; esac
}

field session_id; session=$value
field transcript_path; transcript=$value
field cwd; cwd=$value
field tool_name; tool=$value
case $session in '' | *[!A-Za-z0-9-]*) exit 0 ;; esac
case $transcript in /*/projects/*) home=${transcript%/projects/*} ;; *) exit 0 ;; esac
case $cwd in /*) ;; *) exit 0 ;; esac
folder=$home/bygones-checkpoints/$session
[ -d "$folder" ] || mkdir -p "$folder" || exit 0

# Files that Claude edits are watched, wherever they are.
if [ "$tool" != Bash ]; then
  field file_path
  case $value in /*) ;; *) exit 0 ;; esac
  printf '%s\n' "$value" >>"$folder/.bygones-edited"
  : >"$folder/.bygones-news"
  exit 0
fi

# The repository, unless it contains the home of the user.
known= root=
if [ -r "$folder/.bygones-root" ]; then
  { IFS= read -r known; IFS= read -r root; } <"$folder/.bygones-root"
fi
if [ "$known" != "$cwd" ]; then
  root=$(git -C "$cwd" rev-parse --show-toplevel 2>/dev/null)
  case $HOME/ in "${root%/}"/*) root= ;; esac
  printf '%s\n%s\n' "$cwd" "$root" >"$folder/.bygones-root"
fi

# Whether a watched file changed after the file $1 was written, or there are new ones.
changed_since() {
  stamp=$folder/$1
  [ -f "$folder/.bygones-news" ] && return 0
  [ -s "$folder/.bygones-files" ] || return 1
  set --
  while IFS= read -r name; do set -- "$@" "$name"; done <"$folder/.bygones-files"
  found=$(find "$@" -newercm "$stamp" 2>/dev/null)
  [ -n "$found" ]
}

# The id of the call comes last, so it may not be in what was read of a long input.
run_writer() {
  field tool_use_id; call=$value
  case $call in *[!A-Za-z0-9_-]*) call= ;; esac
  if [ -n "$call" ]; then
    start_python </dev/null
  else
    { printf '%s' "$input"; cat; } | start_python
  fi
}

start_python() {
  "$python" -I -S -c \
    'import sys; sys.path[:0] = [sys.argv[1]]; import checkpoint_writer; checkpoint_writer.main(*sys.argv[2:])' \
    "${0%/*}" "$event" "$folder" "$root" "$call"
}

if [ "$event" = pre ]; then
  changed_since .bygones-stamp && run_writer
  : >"$folder/.bygones-start"
  exit 0
fi

[ -f "$folder/.bygones-start" ] || exit 0
status=
if [ -n "$root" ]; then
  status=$(git -C "$root" -c core.fsmonitor=false -c core.quotePath=false status --porcelain \
    -uall --no-renames --ignore-submodules=all 2>/dev/null)
fi
known=
if [ -r "$folder/.bygones-status" ]; then
  while IFS= read -r line; do known=$known${known:+$newline}$line; done <"$folder/.bygones-status"
fi
if [ "$status" != "$known" ] || changed_since .bygones-start; then
  printf '%s\n' "$status" >"$folder/.bygones-status"
  run_writer
fi
: >"$folder/.bygones-stamp"
