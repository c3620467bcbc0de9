//! Which programs run files, and which files are code (CFG-6).

use std::path::Path;

/// Programs that run a file given as an argument, or given in one, whatever its name.
const INTERPRETERS: &[&str] = &[
    // Shells.
    "sh ash bash dash fish ksh mksh zsh csh tcsh rbash nu xonsh elvish pwsh powershell cmd busybox",
    "toybox",
    // JavaScript.
    "node nodejs bun deno tsx ts-node esno jiti swc-node babel-node electron qjs d8",
    // Python.
    "python pythonw pypy ipython py uv jython micropython",
    // Other languages.
    "ruby jruby irb rake bundle perl php lua luajit luvit tclsh wish expect java javaw jshell jbang",
    "groovy kotlin kotlinc scala clj clojure bb lein dotnet csi fsi mono r rscript julia octave dart",
    "flutter swift runhaskell runghc ghci cabal ocaml ocamlrun zig nim crystal elixir iex mix",
    "escript erl racket guile sbcl clisp ecl emacs go gorun cargo rust-script wasmtime wasmer wasmedge",
    "osascript wscript cscript mshta rundll regsvr",
    // Programs whose scripts can run others.
    "awk gawk mawk nawk sed ed vi vim nvim make gmake ant mvn gradle m4 gdb lldb git",
    "ssh tmux env parallel find xargs entr socat ansible-playbook terraform nix",
    "docker podman",
];

/// What may follow the version of an interpreter: `python3.13t`, `python3-dbg`, `php8.3-cgi`.
const VARIANTS: &str = "t d m td dm dbg debug cgi fpm static nightly canary";

/// Programs that run a package. What that does with a directory, it does to data.
const PACKAGE_RUNNERS: &str = "npx npm pnpm pnpx yarn bunx uvx pipx";

/// File extensions of code.
const CODE: [&str; 50] = [
    "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "py", "pyw", "pyc", "pyz", "rb", "pl",
    "pm", "php", "phar", "lua", "sh", "bash", "zsh", "ksh", "fish", "ps1", "psm1", "bat", "cmd",
    "vbs", "jar", "war", "class", "groovy", "kts", "wasm", "exe", "com", "dll", "so", "dylib",
    "node", "go", "pyd", "rs", "csx", "csproj", "fsx", "ex", "exs", "r", "jl",
];

/// File extensions of data that servers write. Everything else may be a program, or be read as one
/// by something that is not known to: `sqlite3 :memory: ".read boot.txt"`.
const DATA: &str = "db db-wal db-shm db-journal db3 sqlite sqlite-wal sqlite-shm sqlite-journal \
    sqlite3 duckdb json jsonl ndjson csv tsv parquet arrow md markdown log png jpg jpeg gif webp ico \
    bmp pdf doc docx xls xlsx ppt pptx odt zip gz tgz tar bz2 xz zst mp3 mp4 wav webm lock";

/// Whether a word is an interpreter, in any directory and version: `/usr/bin/python3.12`.
pub(crate) fn is_interpreter(word: &str) -> bool {
    let name = program_name(word);
    let is_version = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let is_known = |name: &str| {
        let plain = name.trim_end_matches(is_version);
        let mut known = INTERPRETERS.iter().flat_map(|names| names.split(' '));
        known.any(|known| known == plain)
    };
    // The version stands before the variant: `3.13t`.
    let without_variant = || {
        let mut variants = VARIANTS.split(' ');
        variants.find_map(|variant| {
            name.strip_suffix(variant)
                .filter(|name| name.ends_with(is_version))
        })
    };
    is_known(&name) || without_variant().is_some_and(is_known)
}

/// Whether a program runs a package.
pub(super) fn is_package_runner(word: &str) -> bool {
    let name = program_name(word);
    PACKAGE_RUNNERS.split(' ').any(|known| known == name)
}

/// The name of a program in lower case, without its directory and the extension of Windows.
fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name.to_ascii_lowercase();
    let plain = [".exe", ".cmd"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    plain.map_or_else(|| name.clone(), str::to_owned)
}

/// Whether a file has an extension of code.
pub(crate) fn has_code_extension(path: &Path) -> bool {
    let extension = extension(path);
    CODE.contains(&&*extension)
}

/// Whether a file has an extension of data that servers write.
pub(super) fn has_data_extension(path: &Path) -> bool {
    let extension = extension(path);
    DATA.split_whitespace().any(|known| known == extension)
}

fn extension(path: &Path) -> String {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_known_in_any_version() {
        for word in "node node20 /usr/bin/python3.12 python3 sh tclsh8.6 gawk lua5.4 perl5.36.0 R \
            Python.exe C:\\x\\node.exe php8.2 node-18 python3.13t python3-dbg python3.12-dbg node22 \
            python3.11d php8.3-cgi php-cgi"
            .split_whitespace()
        {
            assert!(is_interpreter(word), "{word}");
        }
        for word in [
            "nodes", "server", "./run.sh", "main", "", "3.12", "node-red", "git-mcp", "art", "cmdt",
        ] {
            assert!(!is_interpreter(word), "{word}");
        }
    }
}
