# Completes command lines of `tertulia` in bash. Printed by `tertulia completion bash`.
_tertulia() {
    local line current=${COMP_WORDS[COMP_CWORD]}
    [[ $current == [=:] ]] && current=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            @dir) compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current") ;;
            @file) compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current") ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <(@PROGRAM@ complete bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=:.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _tertulia tertulia
