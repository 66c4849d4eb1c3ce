//! Arrays of one dimension as text.

/// The elements of `{1,"a b",NULL}`; `None`: it is not an array of one dimension.
pub fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let (mut elements, mut element, mut quoted, mut inside) = (Vec::new(), String::new(), false, false);
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                element.push(chars.next()?);
                quoted = true;
            }
            '"' => (inside, quoted) = (!inside, true),
            ',' if !inside => elements.push(finished(std::mem::take(&mut element), std::mem::take(&mut quoted))),
            '{' | '}' if !inside => return None,
            other => element.push(other),
        }
    }
    elements.push(finished(element, quoted));
    (!inside).then_some(elements)
}

fn finished(element: String, quoted: bool) -> Option<String> {
    if quoted {
        return Some(element);
    }
    let bare = element.trim();
    (!bare.eq_ignore_ascii_case("null")).then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{}"), Some(vec![]));
        assert_eq!(elements("{1, 2,NULL}"), Some(vec![some("1"), some("2"), None]));
        assert_eq!(elements(r#"{"a,\"b",c\\d,"null"}"#), Some(vec![some("a,\"b"), some("c\\d"), some("null")]));
        assert!(elements("{{1}}").is_none() && elements("1,2").is_none() && elements("{\"a}").is_none());
    }
}
