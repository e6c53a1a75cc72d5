# Completes command lines of `tertulia` in fish. Printed by `tertulia completion fish`.
function __tertulia_complete
    set -l current (commandline -ct)
    set -q current[1]; or set current ''
    for line in (@PROGRAM@ complete fish -- (commandline -opc) $current[1] 2>/dev/null </dev/null)
        switch $line
            case @dir
                __fish_complete_directories $current[1]
            case @file
                __fish_complete_path $current[1]
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c tertulia -f -k -a '(__tertulia_complete)'
