//! Where `unsafe` may be, and that each use says why it is sound.

use std::path::Path;

use crate::source::{code_of, has_word};
use crate::workspace::Workspace;

/// Files, or directories with all below them, and what they need it for.
const ALLOWED: [(&str, &str); 19] = [
    ("crates/base/src/buffer.rs", "aligned memory and the arena's mapping"),
    ("crates/fabric/src/system", "memory that two processes map, and messages with descriptors"),
    ("crates/fabric/src/transports/verbs", "a library that is loaded at run time, and memory that devices transfer"),
    ("crates/io/src/system.rs", "system calls that the standard library has not"),
    ("crates/io/src/uring", "operations whose memory the kernel uses"),
    ("crates/mvcc/src/chain", "version chains"),
    ("crates/mvcc/src/epoch", "memory that waits for its readers"),
    ("crates/mvcc/src/index", "nodes read without a lock"),
    ("crates/mvcc/src/memory", "blocks of rows and versions, and a hint to the processor"),
    ("crates/placement/src", "mappings, and system calls that the standard library has not"),
    ("crates/mvcc/src/recovery", "rows before anybody sees them"),
    ("crates/mvcc/src/runner", "rows and versions kept by a pin, and freeing what nobody sees any more"),
    ("crates/mvcc/src/table", "rows out of an index"),
    ("crates/mvcc/src/transaction", "rows and versions kept by the transaction's pin"),
    ("crates/mvcc/tests", "memory that the tests own"),
    ("crates/page/src/cache.rs", "frames read without a latch"),
    ("tools/sim/src/threads", "functions of the C library, stood in for so that threads run in an order of the seed's"),
    ("crates/exec/tests/allocation.rs", "a global allocator that counts"),
    ("crates/exec/tests/scan_allocation.rs", "the same, of scans"),
];

/// Lines of a statement that may stand between the reason and the word itself.
const STATEMENT_LINES_MAX: usize = 3;

/// What is not allowed.
pub fn violations(workspace: &Workspace) -> Vec<String> {
    let mut violations = Vec::new();
    for path in workspace.files("rs") {
        let text = workspace.text(&path);
        let uses = uses_of_unsafe(&text);
        if !uses.is_empty() && !is_allowed(&path) {
            violations.push(format!("{}:{}: unsafe is not for this file", path.display(), uses[0].line));
            continue;
        }
        let bare = uses.iter().filter(|found| !found.reasoned);
        violations
            .extend(bare.map(|found| format!("{}:{}: unsafe without a SAFETY comment", path.display(), found.line)));
    }
    violations.extend(workspace.packages.iter().filter_map(|package| fence_of(workspace, &package.directory)));
    violations
}

/// Every crate refuses `unsafe` at its root; one with an exception denies it, so that the exception is marked.
fn fence_of(workspace: &Workspace, directory: &Path) -> Option<String> {
    let root = ["src/lib.rs", "src/main.rs"]
        .map(|file| directory.join(file))
        .into_iter()
        .find(|path| workspace.root.join(path).exists())?;
    let code = code_of(&workspace.text(&root));
    let has_exception = ALLOWED.iter().any(|(path, _)| Path::new(path).starts_with(directory.join("src")));
    let wanted = if has_exception { "deny(unsafe_code)" } else { "forbid(unsafe_code)" };
    let fenced = code.contains(wanted) || (has_exception && denies_among_others(&code));
    (!fenced).then(|| format!("{}: wants #![{wanted}]", root.display()))
}

fn denies_among_others(code: &str) -> bool {
    code.lines().any(|line| line.starts_with("#![deny(") && has_word(line, "unsafe_code"))
}

fn is_allowed(path: &Path) -> bool {
    ALLOWED.iter().any(|(allowed, _)| path.starts_with(allowed))
}

struct Use {
    /// From 1.
    line: usize,
    reasoned: bool,
}

fn uses_of_unsafe(text: &str) -> Vec<Use> {
    let code = code_of(text);
    let lines: Vec<&str> = text.lines().collect();
    let uses = code.lines().enumerate().filter(|(_, line)| has_word(line, "unsafe"));
    uses.map(|(index, _)| Use { line: index + 1, reasoned: is_reasoned(&lines, index) }).collect()
}

/// Whether a comment that gives the reason ends just above line `index`, or above the statement it is in.
fn is_reasoned(lines: &[&str], index: usize) -> bool {
    let mut passed = 0;
    let mut above = lines[..index].iter().rev().map(|line| line.trim()).peekable();
    while let Some(line) = above.peek() {
        let is_comment = line.starts_with("//");
        let is_attribute = line.starts_with("#[");
        if is_comment {
            let mut comment = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
            return comment.any(|line| line.contains("SAFETY:") || line.contains("# Safety"));
        }
        if !is_attribute {
            passed += 1;
            // A finished statement or block ends the search: its reason is not ours.
            if passed > STATEMENT_LINES_MAX || line.ends_with(';') || line.is_empty() {
                return false;
            }
        }
        above.next();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasoned(text: &str) -> Vec<bool> {
        uses_of_unsafe(text).iter().map(|found| found.reasoned).collect()
    }

    #[test]
    fn a_reason_stands_just_above() {
        assert_eq!(reasoned("// SAFETY: ours.\nunsafe { f() };"), [true]);
        assert_eq!(reasoned("// SAFETY: ours,\n// and long.\nlet x =\n    unsafe { f() };"), [true]);
        assert_eq!(reasoned("/// # Safety\n/// Ours.\n#[inline]\nunsafe fn f() {}"), [true]);
        assert_eq!(reasoned("// SAFETY: of another.\nunsafe { f() };\nunsafe { g() };"), [true, false]);
        assert_eq!(reasoned("// only a remark\nunsafe { f() };"), [false]);
        assert_eq!(reasoned("#![deny(unsafe_code)]\n// unsafe\n"), [] as [bool; 0]);
    }
}
