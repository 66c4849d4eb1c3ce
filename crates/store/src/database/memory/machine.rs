//! What the machine has: how much memory.

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

/// What is assumed where the system does not tell: 4 GiB.
const BYTES_ASSUMED: u64 = 4 << 30;

/// Bytes of memory of the machine, or what this process's control group may have of it, or one of those above it.
pub fn memory_bytes() -> u64 {
    memory_below(Path::new("/"))
}

/// The same of a system whose files lie below `root`.
fn memory_below(root: &Path) -> u64 {
    let machine = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| total(&text));
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let group = groups.lines().flat_map(|line| limits(root, line)).min();
    machine.into_iter().chain(group).filter(|bytes| *bytes > 0).min().unwrap_or(BYTES_ASSUMED)
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// The limits of the group that a line of `/proc/self/cgroup` names, and of all above it: `number:controllers:path`,
/// where the number is 0 and no controller is named for groups of version 2.
fn limits(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':');
    let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    let groups = root.join("sys/fs/cgroup");
    let is_of_memory = controllers.split(',').any(|controller| controller == "memory");
    match (number, is_of_memory) {
        ("0", _) => {
            let beside_version_1 = limits_of(&groups.join("unified"), path, "memory.max");
            [limits_of(&groups, path, "memory.max"), beside_version_1].concat()
        }
        (_, true) => limits_of(&groups.join("memory"), path, "memory.limit_in_bytes"),
        _ => Vec::new(),
    }
}

/// What the files of that name say in the directory of a group, and in each above it, up to `mounted`. Within a
/// container the path may be that outside of it, and only the uppermost directory be there: it is the group's own.
fn limits_of(mounted: &Path, path: &str, file: &str) -> Vec<u64> {
    let names = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)));
    let directory = mounted.join(names.collect::<PathBuf>());
    let above = directory.ancestors().take_while(|directory| directory.starts_with(mounted));
    // Where there is no limit, the file says `max`, or a number that no machine has.
    above.filter_map(|directory| read_to_string(directory.join(file)).ok()?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    /// What is said to be there where the system has these files.
    fn memory_with(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            create_dir_all(path.parent().expect("a directory")).expect("made");
            write(path, text).expect("written");
        }
        memory_below(root.path())
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn total_memory_is_read() {
        assert_eq!(total("MemTotal:       24590212 kB\nMemFree: 1 kB\n"), Some(24_590_212 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(memory_bytes() > 64 << 20);
    }

    #[test]
    fn without_a_group_all_of_the_machine_is_there() {
        assert_eq!(memory_with(&[]), BYTES_ASSUMED);
        assert_eq!(memory_with(&[MACHINE]), 8 << 30);
        let unlimited = [MACHINE, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")];
        assert_eq!(memory_with(&unlimited), 8 << 30);
    }

    #[test]
    fn the_smallest_limit_of_a_group_and_those_above_it_counts() {
        let own = ("proc/self/cgroup", "0::/system.slice/saki.service\n");
        let service = ("sys/fs/cgroup/system.slice/saki.service/memory.max", "1073741824\n");
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "2147483648\n");
        assert_eq!(memory_with(&[MACHINE, own, service, slice]), 1 << 30);
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "536870912\n");
        assert_eq!(memory_with(&[MACHINE, own, service, slice]), 512 << 20);
        assert_eq!(memory_with(&[MACHINE, own, slice]), 512 << 20, "the group itself has none");
        let other = ("sys/fs/cgroup/other/memory.max", "1000\n");
        assert_eq!(memory_with(&[MACHINE, own, service, other]), 1 << 30, "not its own");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let own = ("proc/self/cgroup", "0::/\n");
        assert_eq!(memory_with(&[MACHINE, own, ("sys/fs/cgroup/memory.max", "1073741824")]), 1 << 30);
        let outside = ("proc/self/cgroup", "0::/../../docker/0123\n");
        assert_eq!(memory_with(&[MACHINE, outside, ("sys/fs/cgroup/memory.max", "1073741824")]), 1 << 30);
    }

    #[test]
    fn groups_of_version_1_are_read_as_well() {
        let own = ("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/0123\n0::/\n");
        let limit = |path| (path, "1073741824\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let inner = limit("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes");
        assert_eq!(memory_with(&[MACHINE, own, none, inner]), 1 << 30);
        assert_eq!(memory_with(&[MACHINE, own, none]), 8 << 30);
        assert_eq!(memory_with(&[MACHINE, own, limit("sys/fs/cgroup/memory/memory.limit_in_bytes")]), 1 << 30);
        assert_eq!(memory_with(&[MACHINE, own, limit("sys/fs/cgroup/unified/memory.max")]), 1 << 30);
    }
}
