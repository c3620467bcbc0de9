//! Fields of an entry that make an allowed command or URL run other code, or trust another peer
//! (CFG-7).
//!
//! An allow list compares an argv or a URL. Neither determines the code that runs if the entry also
//! chooses the loader's libraries, the interpreter's options, the registry of packages, the peer
//! that they come from, or the directory it runs in.
//!
//! No list of variables that do so is ever complete. A variable is therefore refused unless its
//! name is known to carry plain data, such as a key or a port, or the rule lists it.

use std::collections::HashSet;

use crate::entry::{ServerEntry, TransportEntry};
use crate::files::shown;
use crate::scopes::Scope;

/// Variables that carry plain data, in upper case. A leading `*` matches any name with that suffix.
///
/// URLs, hosts, files, directories, commands and names of modules or plugins do not belong here.
const HARMLESS_VARIABLES: &[&str] = &[
    // Credentials, and whose they are.
    "TOKEN *_TOKEN KEY *_KEY APIKEY *_APIKEY SECRET *_SECRET PASSWORD *_PASSWORD *_PASSWD *_PASS",
    "*_PASSPHRASE *_PAT PGPASSWORD USERNAME *_USERNAME *_USER PGUSER EMAIL *_EMAIL *_ID *_ACCOUNT",
    "*_ORG *_ORGANIZATION *_TENANT *_TEAM GOOGLE_APPLICATION_CREDENTIALS GIT_AUTHOR_NAME",
    "GIT_COMMITTER_NAME",
    // Where in a service.
    "*_REGION *_ZONE AWS_PROFILE GOOGLE_CLOUD_PROJECT PGDATABASE",
    // Numbers.
    "PORT *_PORT *_TIMEOUT *_TIMEOUT_MS *_TIMEOUT_SECONDS *_LIMIT *_RETRIES *_TTL",
    // Messages, language and time.
    "DEBUG VERBOSE LOG_LEVEL LOGLEVEL *_LOG_LEVEL *_LOGLEVEL LOG_FORMAT RUST_LOG NO_COLOR FORCE_COLOR",
    "LANG LC_ALL LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME TZ TERM",
    // The stage of a deployment.
    "NODE_ENV APP_ENV RAILS_ENV ENVIRONMENT *_ENVIRONMENT",
];

/// Variables that choose code or redirect trust even if their name looks harmless, in upper case
/// because programs differ in whether case counts. A trailing `*` matches any name with that
/// prefix. Each text is a list of words.
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

/// The variable that names the directory of a plugin; loading sets it.
const PLUGIN_ROOT: &str = "CLAUDE_PLUGIN_ROOT";

/// The first field of a local server's entry that chooses code or redirects trust. `variables` are
/// those that the rule lists.
pub(super) fn sensitive_stdio_field(
    entry: &ServerEntry,
    variables: Option<&HashSet<String>>,
) -> Option<String> {
    let stdio = entry.transport.stdio()?;
    if stdio.cwd.is_some() {
        return Some("cwd".to_owned());
    }
    let is_plugins = |name: &str| {
        let root = entry.base.as_deref().map(shown);
        let value = stdio.env.get(name).map(|value| value.expose().to_owned());
        name == PLUGIN_ROOT && entry.scope == Scope::Plugin && value == root
    };
    let is_listed = |name: &str| variables.is_some_and(|names| names.contains(name));
    let mut names = stdio.env.keys();
    let name = names.find(|name| !is_harmless(name) && !is_listed(name) && !is_plugins(name))?;
    Some(format!("env.{name}"))
}

/// The first field of a remote server's entry that redirects trust.
pub(super) fn sensitive_remote_field(entry: &ServerEntry) -> Option<String> {
    let tls = match &entry.transport {
        TransportEntry::Http(http) => Some(&http.tls),
        TransportEntry::Ws(ws) => Some(&ws.tls),
        _ => None,
    };
    if tls.is_some_and(|tls| tls.ca.is_some() || tls.cert.is_some() || tls.key.is_some()) {
        return Some("tls".to_owned());
    }
    if let Some(oauth) = entry.transport.oauth() {
        if oauth.auth_server_metadata_url.is_some() {
            return Some("oauth.authServerMetadataUrl".to_owned());
        }
        // It would sign with a key of the user's.
        if oauth.private_key_file.is_some() {
            return Some("oauth.privateKeyFile".to_owned());
        }
    }
    let mut headers = entry.transport.headers()?.keys();
    let name = headers.find(|name| is_routing_header(name))?;
    Some(format!("headers.{name}"))
}

/// Whether a variable carries plain data.
fn is_harmless(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_known = words(HARMLESS_VARIABLES).any(|known| match known.strip_prefix('*') {
        Some(suffix) => name.ends_with(suffix),
        None => name == known,
    });
    is_known && !is_sensitive(&name)
}

/// Whether a variable, in upper case, chooses code or redirects trust.
fn is_sensitive(name: &str) -> bool {
    words(SENSITIVE_VARIABLES).any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == known,
    })
}

fn words(lists: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    lists.iter().flat_map(|words| words.split_whitespace())
}

/// Whether a header can make the host of a URL pass the request to another site or path.
fn is_routing_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    let prefixes = ["x-forwarded-", "x-original-", "x-rewrite-"];
    matches!(&*name, "host" | ":authority" | "forwarded")
        || name.ends_with("-host")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_plain_data_are_harmless() {
        let sensitive = "PATH LD_PRELOAD LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES NODE_OPTIONS \
            NODE_PATH PYTHONPATH PYTHONSTARTUP PYTHONHOME RUBYOPT PERL5OPT JAVA_TOOL_OPTIONS \
            _JAVA_OPTIONS BASH_ENV ENV GIT_SSH_COMMAND GIT_CONFIG_COUNT npm_config_registry \
            NPM_CONFIG_REGISTRY UV_INDEX_URL UV_DEFAULT_INDEX PIP_INDEX_URL DOTNET_STARTUP_HOOKS \
            GOPROXY GOFLAGS HOME XDG_CONFIG_HOME BASH_FUNC_ls%% Path TMPDIR HTTPS_PROXY https_proxy \
            all_proxy NO_PROXY SSL_CERT_FILE NODE_EXTRA_CA_CERTS KRB5_CONFIG GIT_SSL_NO_VERIFY \
            HOSTALIASES SSLKEYLOGFILE AWS_ENDPOINT_URL_S3 GCONV_PATH LOCPATH ODBCSYSINI LESSOPEN \
            RUBYLIB PERL5LIB GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES \
            TCL_LIBRARY ESBUILD_BINARY_PATH NODE_COMPILE_CACHE RIPGREP_CONFIG_PATH CC CXX \
            IBM_JAVA_OPTIONS OPENJ9_JAVA_OPTIONS JRE_HOME MPLBACKEND DJANGO_SETTINGS_MODULE \
            HDF5_PLUGIN_PATH PYSPARK_PYTHON JUPYTER_PATH AWS_PAGER GH_PAGER GH_BROWSER RSYNC_RSH \
            SVN_SSH PSQLRC LESS CHROME_BIN npm_execpath npm_node_execpath PUB_HOSTED_URL \
            DART_VM_OPTIONS CAML_LD_LIBRARY_PATH AWKLIBPATH COVERAGE_PROCESS_START \
            CLAUDE_CONFIG_DIR CLAUDE_PLUGIN_ROOT DATABASE_URL PGHOST MY_PATH ANYTHING_ELSE \
            NPM_CONFIG__AUTH_TOKEN GIT_CONFIG_KEY_0 GOAUTH PGSSLKEY";
        for name in sensitive.split_whitespace() {
            assert!(!is_harmless(name), "{name}");
        }
        let usual = "GITHUB_TOKEN GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS NODE_ENV API_KEY \
            DEBUG LOG_LEVEL PORT GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL ENVIRONMENT LANG TZ AWS_REGION \
            AWS_PROFILE PGPASSWORD OPENAI_API_KEY SLACK_BOT_TOKEN SLACK_TEAM_ID JIRA_USERNAME \
            AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN SENTRY_ORG api_key \
            GITHUB_PERSONAL_ACCESS_TOKEN CLIENT_SECRET DB_PASSWORD DB_USER DB_PORT";
        for name in usual.split_whitespace() {
            assert!(is_harmless(name), "{name}");
        }
    }

    #[test]
    fn headers_that_route_are_known() {
        let routing =
            "Host host :authority Forwarded X-Forwarded-Host X-Original-URL X-Rewrite-Url";
        for name in routing.split_whitespace() {
            assert!(is_routing_header(name), "{name}");
        }
        for name in ["Authorization", "X-Api-Key", "Accept", "X-Hostname"] {
            assert!(!is_routing_header(name), "{name}");
        }
    }
}
