# Sourced by scripts/quickstart.

# A small repository whose run captures the demo with the repository's options. One commit changes
# the learning rate by a 500,000th; the others change words.
make_history() { # folder, program
  local folder=$1 program=$2 repository=$1/repository i
  rm -rf "$folder"
  mkdir -p "$repository"
  git init -q -b main "$repository"
  printf 'lr: 0.0005\n' >"$repository/options.yaml"
  printf '#!/bin/sh\nexec %q capture --model demo --config options.yaml --steps 2 %s\n' \
    "$program" '--rollout-batch-size 8 -o "$RLBISECT_OUT/dump" --json' >"$repository/run.sh"
  chmod +x "$repository/run.sh"
  for i in 1 2 3 4 5 6 7 8; do
    printf 'note %d\n' "$i" >>"$repository/NOTES"
    if [[ $i == 6 ]]; then printf 'lr: 0.000500001\n' >"$repository/options.yaml"; fi
    git -C "$repository" add -A
    git -C "$repository" -c user.name=quickstart -c user.email=quickstart@localhost commit -q \
      -m "$([[ $i == 6 ]] && echo "Change the learning rate by a 500,000th" || echo "Note $i")"
    [[ $i != 1 ]] || git -C "$repository" rev-parse HEAD >"$folder/good"
  done
}
