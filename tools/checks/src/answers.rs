//! SQL logic tests run in configurations that cut small answers into batches and share them out among partitions, so
//! an answer of several rows is compared in an order that its query asks for, or sorted: a test that does neither
//! fails once in a hundred runs.

use crate::workspace::Workspace;

/// What begins a statement that gives its rows in an order of its own.
const ORDERED: [&str; 6] = ["explain", "show", "values", "fetch", "insert", "with recursive"];

/// Queries of several rows without an order.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let files = workspace.files("slt").into_iter();
    files.flat_map(|path| in_file(&path.display().to_string(), &workspace.text(&path))).collect()
}

fn in_file(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let is_blank = |line: &&&str| !line.trim().is_empty();
    let queries = lines.iter().enumerate().filter(|(_, line)| line.starts_with("query ") && !line.contains("sort"));
    let is_unordered = |at: usize| {
        let query = lines[at + 1..].iter().take_while(is_blank).take_while(|line| **line != "----");
        let query = query.map(|line| line.to_lowercase()).collect::<Vec<_>>();
        let rows = lines[at + 1 + query.len()..].iter().skip(1).take_while(is_blank).count();
        let query = query.join(" ");
        rows > 1 && !query.contains("order by") && !ORDERED.iter().any(|verb| query.trim_start().starts_with(verb))
    };
    let told = |at| format!("{path}:{}: an answer of several rows needs ORDER BY, or rowsort", at + 1);
    queries.filter(|(at, _)| is_unordered(*at)).map(|(at, _)| told(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rows_need_an_order() {
        let lines = |text| in_file("a.slt", text).len();
        assert_eq!(lines("query I\nSELECT 1\nUNION SELECT 2\n----\n1\n2\n\n"), 1);
        assert_eq!(lines("query I\nSELECT 1\n----\n1\n\nquery I rowsort\nSELECT a FROM t\n----\n1\n2\n"), 0);
        assert_eq!(lines("query I\nSELECT a FROM t\nORDER BY a\n----\n1\n2\n"), 0);
    }
}
