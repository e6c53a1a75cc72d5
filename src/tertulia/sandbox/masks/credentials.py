"""The credentials that tools keep below a user's home, and in the system's own folders: the table of what is masked.

Each row says what lies there and which programs need it, so that a command that fails for want of it can be told why. A
path that ends in a slash is a directory. Nothing here looks at a disk.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Credential(msgspec.Struct, frozen=True, gc=False):
    """A file or directory that holds credentials."""

    path: str
    """Below a home, or absolute."""
    holds: str
    """What is kept there, in words for people."""
    programs: tuple[str, ...] = ()
    """Those that fail without it; `git push` names a program and its first word."""


_ALSO_MISSING = """
    .ssh/ .gnupg/ .git-credentials .netrc .config/gh/ .aws/ .azure/ .config/gcloud/ .kube/ .docker/config.json .npmrc
    .pgpass .my.cnf .terraformrc .codex/ .claude/ .claude.json .gemini/ .config/opencode/ .cursor/
    """
ALSO_MISSING = frozenset(_ALSO_MISSING.split())
"""Those that commands must not create either: programs read them, including their hooks and helpers."""

_GIT = ("git push", "git pull", "git fetch", "git clone", "git ls-remote", "git submodule")

_ROWS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # keys
    ("SSH keys", ("ssh", "scp", "sftp", "rsync", "ssh-add", *_GIT), ".ssh/"),
    ("GnuPG keys", ("gpg", "gpg2"), ".gnupg/"),
    ("keys for encrypted files", ("age", "sops"), ".age/ .config/age/ .config/sops/ .ecryptfs/ .Private/"),
    ("certificates and their keys", (), ".pki/ .cert/"),
    # source hosting
    ("passwords for Git remotes", _GIT, ".git-credentials .config/git/credentials .gitcookies"),
    ("passwords for Git remotes, cached", _GIT, ".git-credential-cache/ .cache/git/credential/"),
    ("logins by host name", ("curl", "ftp", *_GIT), ".netrc .authinfo .authinfo.gpg"),
    ("the GitHub login", ("gh", "hub", *_GIT), ".config/gh/ .config/hub"),
    ("the GitLab or Gitea login", ("glab", "tea", *_GIT), ".config/glab-cli/ .config/tea/"),
    ("Subversion passwords", ("svn",), ".subversion/auth/"),
    # clouds
    ("AWS credentials", ("aws", "cdk", "sam", "eksctl"), ".aws/"),
    ("Azure credentials", ("az", "azd"), ".azure/"),
    ("Google Cloud credentials", ("gcloud", "gsutil", "bq"), ".config/gcloud/ .boto .gsutil/"),
    ("credentials of a cloud", ("oci", "aliyun", "ibmcloud"), ".oci/ .aliyun/ .bluemix/"),
    (
        "the token of a cloud",
        ("doctl", "hcloud", "scw", "linode-cli", "vultr-cli"),
        ".config/doctl/ .config/hcloud/ .config/scw/ .config/linode-cli .vultr-cli.yaml",
    ),
    (
        "the token of a hosting service",
        ("fly", "flyctl", "vercel", "netlify", "wrangler", "firebase", "supabase", "railway"),
        """
        .fly/ .local/share/com.vercel.cli/ .config/netlify/ .netlify/ .wrangler/ .config/.wrangler/
        .config/configstore/ .supabase/ .railway/
        """,
    ),
    ("the token of a tunnel", ("ngrok", "cloudflared"), ".config/ngrok/ .ngrok2/ .cloudflared/"),
    ("credentials of a data platform", ("databricks", "snowsql"), ".databrickscfg .snowsql/ .snowflake/"),
    ("Salesforce logins", ("sf", "sfdx"), ".sf/ .sfdx/"),
    (
        "credentials of object stores",
        ("s3cmd", "mc", "rclone"),
        ".s3cfg .passwd-s3fs .mc/ .config/rclone/ .rclone.conf",
    ),
    # clusters and infrastructure
    ("credentials of Kubernetes clusters", ("kubectl", "helm", "k9s", "minikube"), ".kube/ .minikube/"),
    ("logins of chart registries", ("helm",), ".config/helm/registry/"),
    (
        "logins of container registries",
        ("docker", "podman", "buildah", "skopeo"),
        ".docker/config.json .docker/contexts/ .dockercfg .config/containers/auth.json",
    ),
    ("Terraform tokens", ("terraform", "tofu"), ".terraformrc .terraform.d/credentials.tfrc.json"),
    ("the Vault token", ("vault",), ".vault-token"),
    ("the Pulumi token", ("pulumi",), ".pulumi/credentials.json"),
    ("the Ansible Galaxy token", ("ansible-galaxy",), ".ansible/galaxy_token"),
    ("Teleport certificates", ("tsh",), ".tsh/"),
    # packages
    ("tokens of npm registries", ("npm", "npx", "pnpm", "yarn", "bun"), ".npmrc .yarnrc .yarnrc.yml"),
    (
        "tokens of Python package indexes",
        ("pip", "twine", "poetry", "uv"),
        ".pypirc .config/pypoetry/auth.toml .local/share/uv/credentials/",
    ),
    ("crates.io tokens", ("cargo",), ".cargo/credentials .cargo/credentials.toml"),
    ("RubyGems keys", ("gem", "bundle"), ".gem/credentials .local/share/gem/credentials"),
    ("Composer tokens", ("composer",), ".composer/auth.json .config/composer/auth.json"),
    (
        "passwords of Java repositories",
        ("mvn", "gradle", "sbt"),
        ".m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .sbt/.credentials .ivy2/.credentials",
    ),
    ("NuGet keys", ("dotnet", "nuget"), ".nuget/NuGet/NuGet.Config"),
    ("Hex keys", ("mix", "rebar3"), ".hex/hex.config .config/rebar3/hex.config"),
    ("pub.dev tokens", ("dart", "flutter"), ".pub-cache/credentials.json .config/dart/pub-credentials.json"),
    (
        "tokens of model and data hubs",
        ("huggingface-cli", "hf", "kaggle"),
        ".cache/huggingface/token .huggingface/ .kaggle/ .config/kaggle/",
    ),
    ("tokens of notebook servers", ("jupyter",), ".local/share/jupyter/runtime/"),
    # databases
    ("PostgreSQL passwords", ("psql", "pg_dump"), ".pgpass"),
    ("MySQL passwords", ("mysql", "mysqldump", "mariadb"), ".my.cnf .mylogin.cnf"),
    ("database logins", (), ".mongorc.js .mongodb/ .redisclirc .local/share/DBeaverData/"),
    # passwords
    ("the password store", ("pass", "gopass"), ".password-store/ .config/gopass/ .local/share/gopass/"),
    (
        "the desktop's keyring",
        (),
        ".local/share/keyrings/ .local/share/kwalletd/ .kde/share/apps/kwallet/ .local/share/python_keyring/",
    ),
    (
        "a password manager",
        ("bw", "op", "lpass"),
        """
        .config/keepassxc/ .cache/keepassxc/ .config/Bitwarden/ '.config/Bitwarden CLI/' .config/1Password/
        .config/op/ .op/ .lpass/ .config/lpass/ .local/share/lpass/ .config/keybase/ .local/share/keybase/
        """,
    ),
    # browsers, mail, messages
    (
        "a browser's profile and cookies",
        (),
        """
        .mozilla/ .librewolf/ .waterfox/ .config/google-chrome/ .config/chromium/ .config/BraveSoftware/
        .config/microsoft-edge/ .config/vivaldi/ .config/opera/ .local/share/qutebrowser/ .local/share/epiphany/
        snap/firefox/ snap/chromium/
        """,
    ),
    ("data of sandboxed desktop programs", (), ".var/app/"),
    (
        "mail and its passwords",
        ("mutt", "neomutt", "msmtp", "fetchmail", "mbsync"),
        """
        .thunderbird/ .muttrc .mutt/ .config/mutt/ .config/neomutt/ .msmtprc .config/msmtp/ .fetchmailrc
        .offlineimaprc .mbsyncrc .config/evolution/ .local/share/evolution/
        """,
    ),
    (
        "messages and their logins",
        (),
        """
        .config/Signal/ .config/Slack/ .config/discord/ .config/Element/ .local/share/TelegramDesktop/ .irssi/
        .weechat/ .config/weechat/
        """,
    ),
    # what was typed
    (
        "a history of what was typed",
        (),
        """
        .bash_history .zsh_history .zhistory .history .sh_history .ash_history .local/share/fish/fish_history
        .local/share/atuin/ .python_history .node_repl_history .irb_history .psql_history .mysql_history
        .sqlite_history .rediscli_history .dbshell .lesshst .viminfo
        """,
    ),
    # executors
    ("another coding program's login and sessions", ("codex",), ".codex/"),
    ("another coding program's login and sessions", ("claude",), ".claude/ .claude.json .config/claude/"),
    ("another coding program's login and sessions", ("gemini", "qwen"), ".gemini/ .qwen/"),
    ("another coding program's login and sessions", ("opencode",), ".config/opencode/ .local/share/opencode/"),
    (
        "another coding program's login and sessions",
        ("goose", "aider", "crush", "amp", "llm"),
        """
        .config/goose/ .local/share/goose/ .aider.conf.yml .config/crush/ .local/share/crush/ .config/amp/
        .local/share/amp/ .config/io.datasette.llm/ .vibe/ .factory/ .kiro/
        """,
    ),
    (
        "an editor's assistant and its login",
        (),
        ".cursor/ .config/Cursor/ .continue/ .config/github-copilot/ .copilot/ .codeium/ .windsurf/ .config/openai/",
    ),
    # money
    (
        "a wallet",
        (),
        """
        .bitcoin/ .litecoin/ .dogecoin/ .ethereum/ .electrum/ .bitmonero/ .config/solana/ .config/Exodus/
        '.config/Ledger Live/' .near-credentials/ .sui/ .foundry/keystores/ .brownie/accounts/
        """,
    ),
    # the desktop and the network
    ("the key to the screen", (), ".Xauthority .ICEauthority"),
    (
        "logins of other machines",
        (),
        ".vnc/ .config/remmina/ .local/share/remmina/ .smbcredentials .config/syncthing/ .local/state/syncthing/",
    ),
)

_OF_ROOT: tuple[tuple[str, str], ...] = (
    ("password hashes", "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/security/opasswd"),
    ("keys of this machine", "/etc/ssl/private/ /etc/letsencrypt/ /etc/krb5.keytab /etc/pki/tls/private/"),
    (
        "the SSH keys of this machine",
        "/etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ecdsa_key /etc/ssh/ssh_host_ed25519_key /etc/ssh/ssh_host_dsa_key",
    ),
    (
        "keys of networks",
        """
        /etc/wireguard/ /etc/NetworkManager/system-connections/ /etc/ipsec.secrets /etc/ppp/chap-secrets
        /etc/openvpn/
        """,
    ),
    ("keys of a cluster", "/etc/kubernetes/ /etc/rancher/ /var/lib/kubelet/"),
)

OF_CONTAINERS = Credential("/run/secrets/", "secrets that a container was given")


def _paths(written: str) -> Iterator[str]:
    """Words; what stands between apostrophes is one."""
    for number, part in enumerate(written.split("'")):
        yield from [part] if number % 2 else part.split()


BELOW_HOME = tuple(Credential(path, holds, programs) for holds, programs, paths in _ROWS for path in _paths(paths))
OF_ROOT = tuple(Credential(path, holds) for holds, paths in _OF_ROOT for path in _paths(paths))
"""What only root can read, and so every command of a product that runs as root."""
