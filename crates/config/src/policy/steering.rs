//! What an entry can set to make an allowed command, or an allowed URL, run other code (CFG-7).
//!
//! An allow list compares an argv or a URL. Neither says which code runs when the entry also chooses the loader's libraries,
//! the interpreter's options, the registry that packages come from, or the folder it runs in.

use crate::entry::{ServerEntry, TransportEntry};

/// Variables that change which code runs, in upper case because programs differ in whether case counts. A name that ends in
/// `*` stands for all that begin with it. Each text is a list of words.
const STEERING: &[&str] = &[
    // Where programs, and the files that configure them, are looked for.
    "PATH PATHEXT HOME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA SYSTEMROOT",
    "WINDIR PREFIX XDG_*",
    // Shells.
    "SHELL COMSPEC BASH_ENV ENV SHELLOPTS BASHOPTS BASH_FUNC_* PS4 PROMPT_COMMAND ZDOTDIR CDPATH",
    "IFS PSMODULEPATH",
    // The loader and libraries of the C world.
    "LD_* DYLD_* GLIBC_* _RLD* GCONV_PATH LOCPATH NLSPATH OPENSSL_CONF OPENSSL_MODULES",
    "OPENSSL_ENGINES GTK_MODULES GTK_PATH GIO_EXTRA_MODULES QT_PLUGIN_PATH GST_PLUGIN_PATH",
    // JavaScript. `NODE_ENV` changes no code.
    "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NPM_CONFIG_* COREPACK_* YARN_* PNPM_* BUN_*",
    "DENO_* JSR_URL TS_NODE_* TSX_* ELECTRON_* PUPPETEER_* PLAYWRIGHT_* CHROME_PATH NVM_* VOLTA_*",
    "FNM_* NODENV_*",
    // Python.
    "PYTHON* PIP_* PIPX_* UV_* POETRY_* PDM_* CONDA_* PYENV_* VIRTUAL_ENV",
    // Perl, Ruby, PHP, Lua, Tcl.
    "PERL5* PERL_* PERLLIB RUBYOPT RUBYLIB RUBYSHELL GEM_* BUNDLE_* RBENV_* PHPRC PHP_INI_SCAN_DIR",
    "COMPOSER_* LUA_* TCLLIBPATH",
    // Java and .NET.
    "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH M2_HOME",
    "MAVEN_* GRADLE_* JENV_* SDKMAN_* JBANG_* DOTNET_* COMPLUS_* CORECLR_* COR_* NUGET_* MSBUILD*",
    // Go. `GO*` would take `GOOGLE_API_KEY` along.
    "GOROOT GOPATH GOBIN GOFLAGS GOENV GOPROXY GONOPROXY GOSUMDB GONOSUMDB GONOSUMCHECK GOINSECURE",
    "GOPRIVATE GOVCS GOTOOLCHAIN GOTOOLDIR GOMODCACHE GOCACHE GOCACHEPROG GOWORK GOAUTH",
    "GOEXPERIMENT",
    // Other languages and build tools.
    "CARGO_* RUSTUP_* RUSTC RUSTC_* RUSTFLAGS JULIA_* R_HOME R_PROFILE* R_ENVIRON* R_LIBS* ERL_*",
    "ELIXIR_ERL_OPTIONS MIX_* HEX_* GUILE_* MAKEFLAGS MAKEFILES ASDF_* MISE_* NIX_*",
    // Programs that other programs start, and files that name such programs.
    "EDITOR VISUAL PAGER BROWSER SSH_ASKPASS SUDO_ASKPASS KUBECONFIG AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE DOCKER_* BUILDKIT_* CONTAINER_HOST",
    "GIT_SSH GIT_SSH_COMMAND GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_ASKPASS",
    "GIT_SEQUENCE_EDITOR GIT_PROXY_COMMAND GIT_TEMPLATE_DIR GIT_DIR GIT_COMMON_DIR GIT_WORK_TREE",
    "GIT_ALLOW_PROTOCOL GIT_CONFIG*",
    // Whom a downloader of packages trusts.
    "NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// The field of an entry that changes which code runs, if it sets one.
pub(super) fn steering_field(entry: &ServerEntry) -> Option<String> {
    if entry.transport.headers_helper().is_some() {
        return Some("headersHelper".to_owned());
    }
    let TransportEntry::Stdio(stdio) = &entry.transport else {
        return None;
    };
    if stdio.cwd.is_some() {
        return Some("cwd".to_owned());
    }
    let name = stdio.env.keys().find(|name| is_steering(name))?;
    Some(format!("env.{name}"))
}

/// Whether a variable changes which code runs.
fn is_steering(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut known = STEERING.iter().flat_map(|words| words.split_whitespace());
    known.any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_code_are_known_and_usual_ones_are_left_alone() {
        let steering = "PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS NODE_PATH PYTHONPATH \
            PYTHONSTARTUP PYTHONHOME RUBYOPT PERL5OPT JAVA_TOOL_OPTIONS _JAVA_OPTIONS BASH_ENV ENV GIT_SSH_COMMAND \
            GIT_CONFIG_COUNT npm_config_registry NPM_CONFIG_REGISTRY UV_INDEX_URL UV_DEFAULT_INDEX PIP_INDEX_URL \
            DOTNET_STARTUP_HOOKS GOPROXY GOFLAGS HOME XDG_CONFIG_HOME BASH_FUNC_ls%% Path";
        for name in steering.split_whitespace() {
            assert!(is_steering(name), "{name}");
        }
        let usual = "GITHUB_TOKEN GOOGLE_API_KEY NODE_ENV API_KEY DEBUG LOG_LEVEL PORT DATABASE_URL GIT_AUTHOR_NAME \
            HTTPS_PROXY ENVIRONMENT MY_PATH LANG CLAUDE_PLUGIN_ROOT";
        for name in usual.split_whitespace() {
            assert!(!is_steering(name), "{name}");
        }
    }
}
