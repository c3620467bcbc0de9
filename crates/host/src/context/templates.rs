//! The variables of a resource template (RFC 6570).

/// The maximum number of variables per template (SEC-4).
const MAX_VARIABLES: usize = 100;

/// Returns the names of a resource template's variables, in order, each once.
///
/// ```
/// use trunkline::context::template_variables;
///
/// let names = template_variables("repo://{owner}/{name}/{+path}{?ref,page*,q:10}");
/// assert_eq!(names, ["owner", "name", "path", "ref", "page", "q"]);
/// ```
pub fn template_variables(template: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = template;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((expression, behind)) = after.split_once('}') else {
            break;
        };
        rest = behind;
        let list = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
        for variable in list.split(',') {
            let name = variable.split(':').next().unwrap_or_default();
            let name = name.trim_end_matches('*');
            if !name.is_empty() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
            if names.len() == MAX_VARIABLES {
                return names;
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_expression_has_no_variables() {
        for template in ["", "a:b", "a:{", "a:}{", "a:{}", "a:{,}"] {
            assert!(template_variables(template).is_empty(), "{template}");
        }
        assert_eq!(template_variables("{a}{a}{b}"), ["a", "b"]);
    }
}
