//! Attacks on the built program, one row each: the attack, how it is tried, and what must happen.
//!
//! The table is the index; each row runs as a test of its own in a scratch HOME. The functions
//! behind the rows live in the modules beside this file, by topic. `cargo nextest run -p
//! trunkline-cli attacks` runs them all.

mod approval;
mod commands;
mod floods;
mod limits;
mod own_secrets;
mod pins;
mod policy;
mod rules;
mod secrets;
mod text;

/// Makes a test of every row.
macro_rules! attacks {
    ($($name:ident: $attack:literal, $tried:literal => $outcome:literal, $run:path;)*) => {
        $(
            #[doc = concat!("Attack: ", $attack, ". Tried by: ", $tried, ". Outcome: ", $outcome, ".")]
            #[test]
            fn $name() {
                $run();
            }
        )*
    };
}

attacks! {
    // Approval (CFG-6)
    a_repository_approves_itself: "a repository approves its own server",
        "`.claude/settings.json` in the repository lists the server and enables all"
        => "the server is pending and nothing starts", approval::by_its_own_settings;
    a_name_in_the_users_settings_approves_a_strange_repository: "a repository names its server like one the user trusts",
        "`enabledMcpjsonServers` in `~/.claude/settings.json` lists the name"
        => "the server is pending and nothing starts", approval::by_a_name_in_the_users_settings;
    a_broken_list_of_rejected_servers_rejects_nobody: "a rejected server runs because the list is no list",
        "`disabledMcpjsonServers` is a text, an object, or a list of lists"
        => "every server of the project is rejected", approval::by_a_broken_list_of_rejected_servers;
    a_script_is_swapped_after_its_approval: "a repository changes the script that an approved entry runs",
        "another `run.sh`, and another file behind `node`, after `approve`"
        => "the server is pending, and the changed file is named", approval::by_another_script;
    a_working_directory_lends_its_own_program: "a folder holds a program that a relative command would find",
        "`./run.sh` of an outer `.mcp.json`, and of the user's file, below a folder with its own `run.sh`"
        => "the program beside the file that names it starts", approval::by_the_working_directory;
    a_tool_filter_is_widened_after_its_approval: "a repository offers tools that its approved entry hid",
        "`tools.allow` is changed after `approve`"
        => "the server is pending again", approval::by_a_wider_tool_filter;
    a_server_name_forges_a_prompt: "a server's name holds line breaks and a forged entry",
        "a name with 60 line breaks, escape sequences or direction marks in each scope's file"
        => "a diagnostic on one line; the server never runs", approval::by_a_name_with_line_breaks;
    a_prompt_hides_code: "an entry passes code off as a secret, so that the prompt masks it",
        "`TOKEN=\"$(…)\"`, `token=load'…'`, `-u EXEC:…` and the like in `args`, `headersHelper` and `env`"
        => "the prompt shows it in full", approval::by_code_that_looks_secret;
    a_decoy_takes_the_place_of_a_script: "an approval holds a harmless file in place of the one that runs",
        "a decoy before the script, 64 fillers, `sh -c \"exec ./main\"`, a folder called `$d`"
        => "another script makes the server pending", approval::by_a_script_behind_a_decoy;
    a_script_in_another_spelling_is_swapped: "an entry spells a file so that its approval misses it",
        "without its extension, as a module, quoted, in `$'…'` or braces, behind `env -C`, behind starters and rare interpreters"
        => "another content makes the server pending", approval::by_a_script_in_another_spelling;
    a_script_behind_a_hidden_word_is_swapped: "an entry hides the word that names its script",
        "behind quotes in comments, here-documents and `$(…)`, in patterns, nested directories and packages, behind unknown interpreters"
        => "another content makes the server pending", approval::by_a_script_behind_a_hidden_word;

    // Policy (CFG-7)
    an_allowed_command_runs_other_code: "an entry with an allowed command chooses the code",
        "`PATH`, `LD_PRELOAD`, `NODE_OPTIONS`, any variable not known to be harmless, or `cwd` in the entry, or `LD_PRELOAD=` inside a variable's name"
        => "blocked; the refusal names the variable or field", policy::by_a_variable;
    an_allowed_url_runs_a_command: "an entry with an allowed URL runs a command",
        "a `headersHelper`" => "blocked; the command does not run", policy::by_a_headers_helper;

    an_allowed_url_leads_to_another_peer: "an entry with an allowed URL chooses whom to trust",
        "`tls`, `oauth.authServerMetadataUrl` or a `Host` header"
        => "blocked; the refusal names the field", policy::by_another_peer;
    a_mistake_in_a_rule_lets_a_server_run: "a server runs because a rule of the lists is malformed",
        "a text in place of a list, `[\"npx\",5]`, `servercommand`, `serverURL`, a repeated list"
        => "a malformed allow rule restricts, and a malformed deny rule denies", policy::by_a_mistake_in_a_rule;
    a_call_slips_past_the_call_policy: "a model evades the policy for arguments",
        "an argument that is repeated, spelt with escapes or in another case, or left out"
        => "the call is refused and nothing is sent", policy::by_a_repeated_argument;

    // Secrets (SEC-1)
    a_server_reads_our_token: "a server looks for our secrets in its environment",
        "`CLAUDE_CODE_OAUTH_TOKEN` and its kin are set for the program"
        => "no child has them, a `headersHelper` and an editor neither", own_secrets::in_a_childs_environment;
    an_entry_refers_to_our_token: "an entry sends our token elsewhere",
        "`${CLAUDE_CODE_OAUTH_TOKEN}` in `env`, `args`, `url` and `headers`"
        => "it stays as it is, with a warning", own_secrets::in_a_reference;
    approvals_keep_secrets: "somebody reads the file of approvals",
        "secrets in `args`, `url`, `headersHelper` and a field of the server's own are approved"
        => "the file holds hashes", own_secrets::in_the_file_of_approvals;

    // Commands that write (CFG-11)
    an_import_publishes_a_private_server: "the user's private server with its key gets into a repository",
        "`import -s project` with a key in `~/.cursor/mcp.json`, also by name"
        => "nothing is written and the key is not printed", commands::import_of_a_private_server;
    an_import_spares_a_repository_its_approval: "a repository's server gets among the user's, which run unasked",
        "`import cursor -s user` and `-s local`, also with `--file`, from elsewhere and through links"
        => "it is left out and nothing starts", commands::import_of_a_repositorys_server;
    a_link_takes_a_server_among_the_users: "a repository writes its server into the user's own files",
        "`.mcp.json` is a link to `~/.claude/settings.json`, which may not exist yet; `import`, `add`, `edit` and `remove` with `-s project`"
        => "refused; the user's files stay as they are", commands::write_through_a_link;

    // Foreign text (SEC-3)
    a_name_forges_an_entry: "a repository shows another command than the one that runs",
        "a server name with 60 line breaks and a fake entry"
        => "the name stays on one line and nothing starts", text::in_a_server_name;
    an_error_forges_our_lines: "a server prints errors and hints in our name",
        "line breaks, or padding to the next row, in errors, questions and stderr"
        => "no line begins with it", text::in_errors_of_a_server;
    a_result_forges_our_lines: "a tool prints errors and hints in our name",
        "line breaks, padding, tabs and wide emoji in results, resources and prompts, on a terminal"
        => "no row begins with it", text::in_results;
    a_description_forges_our_lines: "a server prints errors and hints in our name",
        "line breaks, or padding, in names, titles, descriptions and pin differences"
        => "no line begins with it", text::in_descriptions;
    a_diagnostic_forges_our_lines: "a repository prints errors and hints in our name",
        "line breaks in the keys and values of its `.mcp.json`"
        => "no line begins with it", text::in_diagnostics;
    an_argument_forges_our_lines: "a word of the command line prints errors in our name",
        "line breaks in words that the program repeats"
        => "no line begins with it", text::in_arguments;
    stderr_forges_a_log: "a server writes lines into its log that pass for ours, or for another server's",
        "line breaks, long lines and the log's own heading in stderr, messages and its name"
        => "each line is the server's, and of its kind", text::in_logs;

    // Secrets (SEC-1)
    a_secret_reaches_a_screen: "a secret of an entry is shown, logged or stored",
        "secrets in args, URLs, headers, helpers and defaults, and a server that repeats them"
        => "no command prints one, and no file of ours holds one", secrets::on_every_screen;
    a_secret_is_spelt_otherwise: "a server repeats its secret in another encoding",
        "percent, JSON and HTML escapes, whole and in part, and Base64, in stderr, errors and traces"
        => "no command prints one", secrets::in_other_spellings;
    masking_hides_the_cause: "masking hides what one needs",
        "a project path, a word and a port in `env`, repeated in a stack trace"
        => "they stay readable", secrets::not_what_one_needs;


    // Rules (TOOL-10)
    a_server_is_named_like_an_allowed_tool: "a server takes the name of an allowed tool",
        "`allow` has `mcp__github__get_issue`, the server is called `github__get_issue`"
        => "its tools are not allowed", rules::a_server_named_like_an_allowed_tool;
    a_server_hides_behind_an_allowed_one: "a server's name begins with an allowed server's",
        "`allow` has `mcp__jira__*`, the server is called `jira__evil`"
        => "its tools are not allowed", rules::a_server_within_an_allowed_servers_names;
    a_server_normalises_to_an_allowed_one: "a server's name normalises to an allowed server's",
        "`allow` has `mcp__my_server`, the servers are `my_server` and `my.server`"
        => "only the first is allowed", rules::a_server_with_an_allowed_servers_normalised_name;
    a_wildcard_allows_destruction: "a destructive tool hides under a wildcard",
        "`allow` has `mcp__db__*`, the tool has `destructiveHint`"
        => "it is asked about unless a rule names it", rules::a_destructive_tool_under_a_wildcard;
    a_denied_tool_is_spelt_otherwise: "a denied tool is called by another spelling",
        "`deny` mixes the normalised server with the original tool"
        => "the call is denied", rules::a_denied_tool_by_another_spelling;

    // Pins (TOOL-11)
    a_repeated_key_hides_a_change: "a schema changes in the first of two equal keys",
        "the server repeats `description` and changes the first one after the first call"
        => "the tool counts as changed", pins::by_a_repeated_key;
    metadata_changes_unseen: "a tool changes its `_meta`",
        "the server changes `anthropic/searchHint` after the first call"
        => "the tool counts as changed", pins::by_metadata;

    // Floods (CALL-7)
    junk_lines_starve_a_neighbour: "one server starves the others",
        "a process writes junk lines without end beside a healthy server"
        => "the healthy server is called in time; the flooder is cut off and `list` says why", floods::junk_lines;
    a_gzip_body_unfolds_into_millions_of_events: "one server starves the others",
        "every answer is a small gzip body of millions of tiny events"
        => "the healthy server is called in time", floods::gzip_events;

    // Limits (SEC-4)
    a_combined_length_passes_the_limit: "a body longer than the limit on messages",
        "`Content-Length: N, N` with N = 1.5 GB"
        => "only that call fails, and memory stays below 3 times the limit", limits::combined_length;
    a_repeated_length_passes_the_limit: "a body longer than the limit on messages",
        "two `Content-Length: N` headers with N = 1.5 GB"
        => "only that call fails, and memory stays below 3 times the limit", limits::repeated_length;
    a_body_without_length_passes_the_limit: "a body longer than the limit on messages",
        "a body of 1.5 GB that ends with the connection"
        => "only that call fails, and memory stays below 3 times the limit", limits::no_length;
    a_list_without_end_fills_the_memory: "a catalog of 60 GB",
        "`tools/list` has 1,000 pages of 60 MB each"
        => "the list is cut, and memory stays below 3 times the limit", limits::endless_list;
    a_result_unfolds_in_memory: "one response below the limit unfolds into gigabytes",
        "60 MB of `{},` or `0,` in content and structured content"
        => "the call ends with an error or a note, and memory stays below 3 times the limit", limits::many_values_in_results;
    a_request_unfolds_in_memory: "one response below the limit unfolds into gigabytes",
        "60 MB of brackets, `_meta`, requests for input and pages to visit"
        => "the call ends with an error or a note, and memory stays below 3 times the limit", limits::many_values_in_requests;
    a_tool_unfolds_in_memory: "one response below the limit unfolds into gigabytes",
        "60 MB of values in the schema or `_meta` of a tool"
        => "the call ends with an error or a note, and memory stays below 3 times the limit", limits::many_values_in_tools;
    a_resource_or_prompt_unfolds_in_memory: "one response below the limit unfolds into gigabytes",
        "60 MB of contents or messages"
        => "the call ends with an error or a note, and memory stays below 3 times the limit", limits::many_values_in_context;
    a_device_stands_in_for_a_certificate: "a file without end holds up all TLS servers",
        "`tls.ca` names /dev/zero, or a pipe that nobody writes to"
        => "only regular files are read, and the server's error says so", limits::devices_as_certificates;
}
