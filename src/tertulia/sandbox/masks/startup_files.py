"""The files that other programs run or obey by themselves: a login, a shell, git, ssh, an editor, the desktop.

A process that may write one of them has the user run something the next time, outside every sandbox. They stay
readable. A path that ends in a slash is a directory. Nothing here looks at a disk.
"""

from __future__ import annotations

import msgspec

STARTUP_NAMES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout", ".bash_aliases"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
    *(".ssh", ".gitconfig", ".hgrc", ".rhosts", ".shosts", ".forward"),
    *(".vimrc", ".gvimrc", ".vim", ".exrc", ".nvimrc", ".emacs", ".emacs.d"),
    *(".xinitrc", ".xsession", ".xsessionrc", ".xprofile", ".pam_environment"),
)
"""Read-only at any depth of a writable root, where they exist: a user's home may lie in it, or be linked to it.

Not here, though protected in a home: what a project has of its own and builds obey anyway (`.npmrc`, `.envrc`, `bin`).
"""

_BELOW_HOME: tuple[tuple[str, str], ...] = (
    (
        "a shell runs it",
        """
        .profile .bash_profile .bash_login .bashrc .bash_logout .bash_aliases .bash_completion
        .local/share/bash-completion/ .zshenv .zprofile .zshrc .zlogin .zlogout .oh-my-zsh/ .config/zsh/ .kshrc
        .mkshrc .cshrc .tcshrc .login .logout .config/fish/ .config/nushell/ .config/elvish/ .config/powershell/
        .config/starship.toml .direnvrc .config/direnv/ .envrc .inputrc .config/bash/
        """,
    ),
    (
        "a login or the desktop runs it",
        """
        .pam_environment .config/environment.d/ .xinitrc .xserverrc .xsession .xsessionrc .xprofile .gnomerc
        .xbindkeysrc .Xresources .config/autostart/ .config/autostart-scripts/ .config/plasma-workspace/
        .local/share/applications/ .config/mimeapps.list .mailcap .config/user-dirs.dirs .config/dconf/
        .local/share/gnome-shell/ .local/share/plasma/ .config/i3/ .i3/ .config/sway/ .config/hypr/ .config/awesome/
        .config/openbox/ .config/labwc/ .config/qtile/ .config/bspwm/ .config/sxhkd/ .config/waybar/ .config/polybar/
        .config/kglobalshortcutsrc .config/khotkeysrc .local/share/dbus-1/ .local/share/flatpak/
        """,
    ),
    ("systemd or cron runs it", ".config/systemd/ .local/share/systemd/ .config/cron/ .crontab"),
    (
        "version control runs what it names",
        ".gitconfig .config/git/ .hgrc .config/hg/ .subversion/ .tigrc",
    ),
    ("it decides who may log in, or is run then", ".ssh/ .rhosts .shosts .k5login .forward .procmailrc"),
    (
        "an editor runs it",
        """
        .vimrc .gvimrc .vim/ .exrc .nvimrc .config/nvim/ .local/share/nvim/ .emacs .emacs.el .emacs.d/
        .config/emacs/ .doom.d/ .config/doom/ .spacemacs .nanorc .config/nano/ .config/kak/ .config/micro/
        .config/helix/ .config/zed/ .config/sublime-text/ .vscode/ .vscode-server/ .config/Code/ .config/VSCodium/
        .config/JetBrains/ .local/share/JetBrains/ .selected_editor
        """,
    ),
    (
        "a terminal or a pager runs it",
        """
        .tmux.conf .config/tmux/ .screenrc .config/alacritty/ .config/kitty/ .config/wezterm/ .wezterm.lua
        .lessfilter         .lesskey .config/lesskey .config/ranger/ .config/lf/ .config/yazi/ .config/lazygit/
        """,
    ),
    (
        "its programs come first in PATH",
        """
        bin/ .local/bin/ .cargo/bin/ go/bin/ .deno/bin/ .bun/bin/ .yarn/bin/ .volta/bin/ .krew/bin/ .dotnet/tools/
        .ghcup/bin/ .cabal/bin/ .juliaup/bin/ .local/share/pnpm/ .local/share/mise/ .nvm/ .pyenv/ .rbenv/ .asdf/
        .sdkman/ .rvm/ .opam/ .nix-profile
        """,
    ),
    (
        "an interpreter or a debugger runs it at every start",
        """
        .local/lib/ .pythonrc.py .pythonrc .pydistutils.cfg .config/python_keyring/ .ipython/ .config/ipython/ .jupyter/
        .irbrc .pryrc .gemrc .Rprofile .Renviron .ghci .julia/config/ .sqliterc .psqlrc .gdbinit .config/gdb/ .lldbinit
        """,
    ),
    (
        "a build or package tool obeys it",
        """
        .npmrc .yarnrc .yarnrc.yml .pypirc .config/pip/ .pip/ .cargo/config .cargo/config.toml .cargo/env .bundle/
        .m2/settings.xml .mavenrc .gradle/init.d/ .gradle/init.gradle .gradle/gradle.properties .sbtrc .condarc
        .ansible.cfg .ansible/ .docker/ .config/containers/ .wgetrc .curlrc
        """,
    ),
)


_ALSO_MISSING = """
    .profile .bash_profile .bash_login .bashrc .bash_logout .zshenv .zprofile .zshrc .zlogin .config/fish/ .inputrc
    .pam_environment .config/environment.d/ .xinitrc .xsession .xsessionrc .xprofile .config/autostart/
    .config/autostart-scripts/ .config/plasma-workspace/ .local/share/applications/ .config/systemd/
    .local/share/systemd/ .gitconfig .config/git/ .ssh/ .rhosts .shosts .k5login .forward .vimrc .vim/ .config/nvim/
    .emacs .emacs.d/ .config/emacs/ .nanorc .selected_editor .tmux.conf bin/ .local/bin/ .local/lib/ .npmrc
    .config/pip/ .docker/ .mailcap .wgetrc .curlrc
    """
"""Obeyed as soon as they are there, by programs that nearly every user runs. For the rest of the table it takes a
program that its user has not set up: what each missing name costs every command would be for nothing."""


class StartupFile(msgspec.Struct, frozen=True, gc=False):
    """One that is protected in a home."""

    path: str
    """Below the home; one that ends in a slash is a directory."""
    reason: str
    """Who runs or obeys it, in words for people."""
    also_missing: bool
    """Whether it must not come into being either."""


BELOW_HOME = tuple(
    StartupFile(path, reason, path in _ALSO_MISSING.split()) for reason, paths in _BELOW_HOME for path in paths.split()
)
