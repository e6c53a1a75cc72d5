#compdef tertulia
# Completes command lines of `tertulia` in zsh. Printed by `tertulia completion zsh`.
_tertulia() {
    local line
    local -a whole begun
    for line in "${(@f)$(@PROGRAM@ complete zsh -- "${(@Q)words[1,CURRENT]}" 2>/dev/null </dev/null)}"; do
        case $line in
            @dir) _directories ;;
            @file) _files ;;
            '='*) whole+=("${line#=}") ;;
            '~'*) begun+=("${line#\~}") ;;
        esac
    done
    (( $#whole )) && _describe -V 'tertulia' whole
    (( $#begun )) && _describe -V 'tertulia' begun -S ''
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _tertulia "$@"
else
    compdef _tertulia tertulia
fi
