//! Fields of an entry that make an allowed command or URL run other code, or trust another peer
//! (CFG-7).
//!
//! An allow list compares an argv or a URL. Neither determines the code that runs if the entry also
//! chooses the loader's libraries, the interpreter's options, the registry of packages, the peer
//! that they come from, or the directory it runs in.

use crate::entry::ServerEntry;

/// Variables that choose code or redirect trust, in upper case because programs differ in whether
/// case counts. A trailing `*` matches any name with that prefix. Each text is a list of words.
const SENSITIVE_VARIABLES: &[&str] = &[
    // Where programs, and the files that configure them, are searched.
    "PATH PATHEXT HOME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA SYSTEMROOT",
    "WINDIR PREFIX XDG_*",
    // Self-extracting programs unpack code here and run it.
    "TMPDIR TMP TEMP TEMPDIR",
    // Shells run these, or look for functions and modules there.
    "SHELL COMSPEC BASH_ENV ENV SHELLOPTS BASHOPTS BASH_FUNC_* BASH_LOADABLES_PATH PS4",
    "PROMPT_COMMAND ZDOTDIR FPATH CDPATH IFS INPUTRC PSMODULEPATH",
    // The dynamic loader, and libraries that load plugins.
    "LD_* DYLD_* GLIBC_* _RLD* GCONV_PATH LOCPATH NLSPATH OPENSSL_CONF OPENSSL_MODULES",
    "OPENSSL_ENGINES GTK_MODULES GTK_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR GI_TYPELIB_PATH",
    "GDK_PIXBUF_MODULE* QT_PLUGIN_PATH QT_QPA_PLATFORM_PLUGIN_PATH GST_PLUGIN_* LIBGL_DRIVERS_PATH",
    "VK_* OCL_ICD_VENDORS ODBCINI ODBCINSTINI ODBCSYSINI SASL_PATH SASL_CONF_PATH P11_KIT_* MAGICK_*",
    // JavaScript runtimes and package managers. `NODE_ENV` changes no code.
    "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NPM_CONFIG_* COREPACK_* YARN_* PNPM_* BUN_*",
    "DENO_* JSR_URL TS_NODE_* TSX_* ELECTRON_* PUPPETEER_* PLAYWRIGHT_* CHROME_PATH NVM_* VOLTA_*",
    "FNM_* NODENV_*",
    // Python.
    "PYTHON* PIP_* PIPX_* PIPENV_* UV_* POETRY_* PDM_* HATCH_* CONDA_* MAMBA_* PYENV_* VIRTUAL_ENV",
    // Perl, Ruby, PHP, Lua, Tcl.
    "PERL5* PERL_* PERLLIB RUBYOPT RUBYLIB RUBYPATH RUBYSHELL RUBYGEMS_* IRBRC GEM_* BUNDLE_*",
    "RBENV_* PHPRC PHP_INI_SCAN_DIR COMPOSER_* LUA_* TCLLIBPATH",
    // Java and .NET.
    "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS JAVA_HOME CLASSPATH M2_HOME",
    "MAVEN_* GRADLE_* JENV_* SDKMAN_* JBANG_* DOTNET_* COMPLUS_* CORECLR_* COR_* NUGET_* MSBUILD*",
    // Go. `GO*` would include `GOOGLE_API_KEY`.
    "GOROOT GOPATH GOBIN GOFLAGS GOENV GOPROXY GONOPROXY GOSUMDB GONOSUMDB GONOSUMCHECK GOINSECURE",
    "GOPRIVATE GOVCS GOTOOLCHAIN GOTOOLDIR GOMODCACHE GOCACHE GOCACHEPROG GOWORK GOAUTH",
    "GOEXPERIMENT",
    // Other languages and build tools.
    "CARGO_* RUSTUP_* RUSTC RUSTC_* RUSTFLAGS JULIA_* R_HOME R_PROFILE* R_ENVIRON* R_LIBS* ERL_*",
    "ELIXIR_ERL_OPTIONS MIX_* HEX_* GUILE_* MAKEFLAGS MAKEFILES ASDF_* MISE_* NIX_* ANSIBLE_*",
    "TF_CLI_* TF_PLUGIN_* HELM_*",
    // Programs that other programs start, and files that name such programs.
    "EDITOR VISUAL PAGER MANPAGER LESSOPEN LESSCLOSE BROWSER VIMINIT EXINIT VIMRUNTIME SSH_ASKPASS",
    "SUDO_ASKPASS KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE CLOUDSDK_*",
    "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES DOCKER_* BUILDKIT_* CONTAINER_HOST GNUPGHOME",
    "GIT_SSH GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR",
    "GIT_ASKPASS GIT_SEQUENCE_EDITOR GIT_PROXY_COMMAND GIT_TEMPLATE_DIR GIT_DIR GIT_COMMON_DIR",
    "GIT_WORK_TREE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_ALLOW_PROTOCOL",
    "GIT_CONFIG*",
    // Where packages and answers come from: proxies, name resolution, endpoints, message buses.
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY SOCKS_PROXY GRPC_PROXY RSYNC_PROXY NO_PROXY",
    "GLOBAL_AGENT_* HOSTALIASES LOCALDOMAIN RES_OPTIONS RESOLV_* AWS_ENDPOINT_URL* DBUS_*",
    "CURL_HOME WGETRC NETRC",
    // Which peers are trusted, and where the keys of a session go.
    "NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE CURL_SSL_BACKEND AWS_CA_BUNDLE GRPC_DEFAULT_SSL_ROOTS_FILE_PATH GIT_SSL_*",
    "SSLKEYLOGFILE KRB5_* KRB5CCNAME PGSSLROOTCERT PGSYSCONFDIR PGSERVICEFILE",
];

/// The first field of an entry that chooses code or redirects trust.
pub(super) fn sensitive_field(entry: &ServerEntry) -> Option<String> {
    if entry.transport.headers_helper().is_some() {
        return Some("headersHelper".to_owned());
    }
    let stdio = entry.transport.stdio()?;
    if stdio.cwd.is_some() {
        return Some("cwd".to_owned());
    }
    let name = stdio.env.keys().find(|name| is_sensitive(name))?;
    Some(format!("env.{name}"))
}

/// Whether a variable chooses code or redirects trust.
fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let mut known = SENSITIVE_VARIABLES
        .iter()
        .flat_map(|words| words.split_whitespace());
    known.any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_code_or_trust_are_known_and_usual_ones_are_left_alone() {
        let sensitive = "PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS \
            NODE_PATH PYTHONPATH PYTHONSTARTUP PYTHONHOME RUBYOPT PERL5OPT JAVA_TOOL_OPTIONS \
            _JAVA_OPTIONS BASH_ENV ENV GIT_SSH_COMMAND GIT_CONFIG_COUNT npm_config_registry \
            NPM_CONFIG_REGISTRY UV_INDEX_URL UV_DEFAULT_INDEX PIP_INDEX_URL DOTNET_STARTUP_HOOKS \
            GOPROXY GOFLAGS HOME XDG_CONFIG_HOME BASH_FUNC_ls%% Path TMPDIR HTTPS_PROXY https_proxy \
            all_proxy NO_PROXY SSL_CERT_FILE NODE_EXTRA_CA_CERTS KRB5_CONFIG GIT_SSL_NO_VERIFY \
            HOSTALIASES SSLKEYLOGFILE AWS_ENDPOINT_URL_S3 GCONV_PATH LOCPATH ODBCSYSINI LESSOPEN \
            RUBYLIB PERL5LIB GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES";
        for name in sensitive.split_whitespace() {
            assert!(is_sensitive(name), "{name}");
        }
        let usual = "GITHUB_TOKEN GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS NODE_ENV API_KEY \
            DEBUG LOG_LEVEL PORT DATABASE_URL GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL ENVIRONMENT \
            MY_PATH LANG TZ CLAUDE_PLUGIN_ROOT AWS_REGION AWS_PROFILE TF_VAR_region PGHOST PGPASSWORD";
        for name in usual.split_whitespace() {
            assert!(!is_sensitive(name), "{name}");
        }
    }
}
