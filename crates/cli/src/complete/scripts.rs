//! The scripts that connect a shell with the program.

use std::path::{Path, PathBuf};

/// A shell with completion of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The line by which `--install` and `--uninstall` know their own files.
const MARK: &str = "Completions of trunkline: written by `trunkline completions`";

const BASH: &str = r#"
_trunkline() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(_TRUNKLINE_COMPLETE=bash _TRUNKLINE_LINE="${COMP_LINE:0:COMP_POINT}" \
        _TRUNKLINE_BREAKS="$COMP_WORDBREAKS" command trunkline 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o default -F _trunkline trunkline
"#;

const ZSH: &str = r#"
_trunkline() {
    local -a lines values open
    local line
    lines=("${(@f)$(_TRUNKLINE_COMPLETE=zsh _TRUNKLINE_INDEX=$((CURRENT - 1)) \
        command trunkline -- "${(@)words}" 2>/dev/null)}")
    for line in "${(@)lines}"; do
        [[ -z $line ]] && continue
        if [[ ${line%%:*} == *= ]]; then
            open+=("$line")
        else
            values+=("$line")
        fi
    done
    (( $#values )) && _describe -V 'trunkline' values
    (( $#open )) && _describe -V 'trunkline' open -S ''
    (( $#values + $#open )) || _files
}
if [[ ${funcstack[1]} == _trunkline ]]; then
    _trunkline "$@"
else
    compdef _trunkline trunkline
fi
"#;

const FISH: &str = r"
complete --command trunkline --no-files --keep-order --arguments '(_TRUNKLINE_COMPLETE=fish command trunkline -- (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token) 2>/dev/null)'
";

/// The home directory and environment variables of the user.
pub(crate) struct UserEnvironment<'a> {
    pub(crate) home: &'a Path,
    /// Reads the environment.
    pub(crate) var: &'a dyn Fn(&str) -> Option<String>,
}

impl Shell {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Returns the script.
    pub(crate) fn script(self) -> String {
        match self {
            Self::Bash => format!("# {MARK} bash\n{BASH}"),
            // Must be the first line.
            Self::Zsh => format!("#compdef trunkline\n# {MARK} zsh\n{ZSH}"),
            Self::Fish => format!("# {MARK} fish\n{FISH}"),
        }
    }

    /// Returns whether a file is one of these scripts.
    pub(crate) fn is_script(text: &str) -> bool {
        text.lines().take(2).any(|line| line.contains(MARK))
    }

    /// Returns the path at which the shell looks for the script.
    pub(crate) fn script_path(self, user: &UserEnvironment) -> PathBuf {
        let set = |name: &str| {
            let value = (user.var)(name).filter(|value| !value.is_empty());
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let under =
            |name: &str, default: &str| set(name).unwrap_or_else(|| user.home.join(default));
        match self {
            Self::Bash => {
                under("XDG_DATA_HOME", ".local/share").join("bash-completion/completions/trunkline")
            }
            Self::Zsh => under("ZDOTDIR", "").join(".zfunc/_trunkline"),
            Self::Fish => {
                under("XDG_CONFIG_HOME", ".config").join("fish/completions/trunkline.fish")
            }
        }
    }

    /// Returns what is left to do after the script was written to `file`.
    pub(crate) fn next_step(self, file: &Path) -> String {
        let file = file.display();
        match self {
            Self::Bash => format!(
                "open a new shell; without the package bash-completion, add to ~/.bashrc: source {file}"
            ),
            Self::Zsh => "add to ~/.zshrc, unless it has this: \
                          fpath=(~/.zfunc $fpath); autoload -Uz compinit && compinit"
                .to_owned(),
            Self::Fish => "open a new shell".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_go_where_the_shell_looks() {
        let home = Path::new("/h");
        let none = |_: &str| None;
        let set = |name: &str| Some(format!("/set/{name}"));
        let relative = |_: &str| Some("relative".to_owned());
        for (shell, default, elsewhere) in [
            (
                Shell::Bash,
                "/h/.local/share/bash-completion/completions/trunkline",
                "/set/XDG_DATA_HOME/bash-completion/completions/trunkline",
            ),
            (
                Shell::Zsh,
                "/h/.zfunc/_trunkline",
                "/set/ZDOTDIR/.zfunc/_trunkline",
            ),
            (
                Shell::Fish,
                "/h/.config/fish/completions/trunkline.fish",
                "/set/XDG_CONFIG_HOME/fish/completions/trunkline.fish",
            ),
        ] {
            let path = |var: &dyn Fn(&str) -> Option<String>| {
                shell.script_path(&UserEnvironment { home, var })
            };
            assert_eq!(path(&none), Path::new(default));
            assert_eq!(path(&relative), Path::new(default));
            assert_eq!(path(&set), Path::new(elsewhere));
            assert!(Shell::is_script(&shell.script()));
            assert_eq!(Shell::named(shell.name()), Some(shell));
        }
        assert!(!Shell::is_script("my own script\n"));
        assert!(Shell::Zsh.script().starts_with("#compdef trunkline\n"));
    }
}
