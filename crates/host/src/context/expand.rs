//! Expands resource templates (RFC 6570, string values only).

use super::templates::template_variables;
use trunkline_config::nearest;

/// How an expression expands, depending on its first character.
struct Operator {
    first: &'static str,
    between: &'static str,
    /// Whether each value is preceded by its name.
    named: bool,
    /// The text after the name of an empty value.
    of_empty: &'static str,
    /// Whether reserved characters stay unencoded.
    reserved: bool,
    /// Whether the URI is valid without the expression.
    optional: bool,
}

impl Operator {
    fn of(c: Option<char>) -> Option<Self> {
        let (first, between, named, of_empty, reserved, optional) = match c? {
            '+' => ("", ",", false, "", true, false),
            '#' => ("#", ",", false, "", true, true),
            '.' => (".", ".", false, "", false, false),
            '/' => ("/", "/", false, "", false, false),
            ';' => (";", ";", true, "", false, true),
            '?' => ("?", "&", true, "=", false, true),
            '&' => ("&", "&", true, "=", false, true),
            _ => return None,
        };
        Some(Self {
            first,
            between,
            named,
            of_empty,
            reserved,
            optional,
        })
    }

    const PLAIN: Self = Self {
        first: "",
        between: ",",
        named: false,
        of_empty: "",
        reserved: false,
        optional: false,
    };
}

/// Expands a resource template to a URI with the values of its variables. Variables after `?`, `&`,
/// `;` and `#` are optional. An `Err` names the missing or unknown variables.
///
/// ```
/// let values = [("owner".to_owned(), "a b".to_owned()), ("ref".to_owned(), "main".to_owned())];
/// assert_eq!(
///     trunkline::context::expand_template("repo://{owner}{?ref,page}", &values)?,
///     "repo://a%20b?ref=main"
/// );
/// # Ok::<(), String>(())
/// ```
pub fn expand_template(template: &str, values: &[(String, String)]) -> Result<String, String> {
    let known = template_variables(template);
    let names = || known.iter().map(String::as_str);
    for (at, (name, _)) in values.iter().enumerate() {
        if !known.contains(name) {
            let takes = match nearest(name, names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("it takes {}", known.join(", ")),
            };
            return Err(format!("it has no variable \"{name}\"; {takes}"));
        }
        if values[..at].iter().any(|(other, _)| other == name) {
            return Err(format!("the variable \"{name}\" is given twice"));
        }
    }
    let mut address = String::with_capacity(template.len());
    let mut missing: Vec<&str> = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((expression, behind)) = after.split_once('}') else {
            break;
        };
        address.push_str(before);
        missing.extend(expand(expression, values, &mut address));
        rest = behind;
    }
    address.push_str(rest);
    missing.dedup();
    if missing.is_empty() {
        Ok(address)
    } else {
        Err(format!("it needs {}", missing.join(", ")))
    }
}

/// Expands one expression; returns its missing variables.
fn expand<'e>(
    expression: &'e str,
    values: &[(String, String)],
    address: &mut String,
) -> Vec<&'e str> {
    let found = Operator::of(expression.chars().next());
    let list = if found.is_some() {
        &expression[1..]
    } else {
        expression
    };
    let operator = found.unwrap_or(Operator::PLAIN);
    let mut missing = Vec::new();
    let mut begun = false;
    for variable in list.split(',') {
        let (name, length) = match variable.split_once(':') {
            Some((name, length)) => (name, length.parse().ok()),
            None => (variable.trim_end_matches('*'), None),
        };
        let given = values.iter().find(|(known, _)| known == name);
        let Some((_, value)) = given else {
            if !operator.optional && !name.is_empty() {
                missing.push(name);
            }
            continue;
        };
        address.push_str(if begun {
            operator.between
        } else {
            operator.first
        });
        begun = true;
        if operator.named {
            address.push_str(name);
            address.push_str(if value.is_empty() {
                operator.of_empty
            } else {
                "="
            });
        }
        let value: String = value.chars().take(length.unwrap_or(usize::MAX)).collect();
        encode(&value, operator.reserved, address);
    }
    missing
}

/// Appends a value, percent-encoding everything except unreserved and, if allowed, reserved
/// characters.
fn encode(value: &str, reserved: bool, out: &mut String) {
    for (at, c) in value.char_indices() {
        let plain = c.is_ascii_alphanumeric() || "-._~".contains(c);
        let kept = reserved && (":/?#[]@!$&'()*+,;=".contains(c) || is_encoded(&value[at..]));
        if plain || kept {
            out.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16).unwrap_or('0');
                out.push(digit.to_ascii_uppercase());
            }
        }
    }
}

/// Returns whether the text starts with a percent-encoded byte.
fn is_encoded(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b'%')
        && bytes
            .get(1..3)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<(String, String)> {
        let value = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        [
            ("var", "value"),
            ("hello", "Hello World!"),
            ("path", "/foo/bar"),
            ("x", "1024"),
            ("empty", ""),
            ("é", "ü"),
        ]
        .map(value)
        .to_vec()
    }

    /// Expands the template with the values that it has variables for.
    fn expanded(template: &str) -> Result<String, String> {
        let known = template_variables(template);
        let mut values = values();
        values.retain(|(name, _)| known.contains(name));
        expand_template(template, &values)
    }

    #[test]
    fn expressions_are_written_out_as_the_rfc_says() {
        for (template, address) in [
            ("plain://x", "plain://x"),
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{path}/here", "%2Ffoo%2Fbar/here"),
            ("{+hello}", "Hello%20World!"),
            ("{+path}/here", "/foo/bar/here"),
            ("X{#path,x}", "X#/foo/bar,1024"),
            ("{x,hello}", "1024,Hello%20World%21"),
            ("X{.var}", "X.value"),
            ("{/var,x}/here", "/value/1024/here"),
            ("{;x,empty}", ";x=1024;empty"),
            ("{?x,empty}", "?x=1024&empty="),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{var:3}", "val"),
            ("{var*}", "value"),
            ("{é}", "%C3%BC"),
            ("{?unset}{#unset}", ""),
            ("{?x,unset}", "?x=1024"),
            ("open{", "open{"),
        ] {
            assert_eq!(expanded(template).as_deref(), Ok(address), "{template}");
        }
        let encoded = [("x".to_owned(), "a%20b%".to_owned())];
        assert_eq!(expand_template("{+x}", &encoded).unwrap(), "a%20b%25");
        assert_eq!(expand_template("{x}", &encoded).unwrap(), "a%2520b%25");
    }

    #[test]
    fn what_is_missing_or_of_no_use_is_named() {
        for (template, problem) in [
            ("a:{one}/{two}", "it needs one, two"),
            ("a:{/one}", "it needs one"),
        ] {
            assert_eq!(expand_template(template, &[]).unwrap_err(), problem);
        }
        let twice = vec![("n".to_owned(), "1".to_owned()); 2];
        for (template, values, problem) in [
            ("a:{n}", &twice[..], "the variable \"n\" is given twice"),
            (
                "a:{name}",
                &twice[..1],
                "it has no variable \"n\"; it takes name",
            ),
        ] {
            assert_eq!(expand_template(template, values).unwrap_err(), problem);
        }
    }
}
