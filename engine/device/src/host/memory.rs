//! How much memory the host has left.

use std::path::{Path, PathBuf};

/// Returns the bytes that programs can take without swapping, as Linux counts them, within a container
/// too; `None` on other systems.
pub(crate) fn free() -> Option<u64> {
    let free = available(&read("/proc/meminfo")?)?;
    Some(free.min(left_by_control_groups().unwrap_or(u64::MAX)))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = |line: &str| line.strip_prefix("MemAvailable:").map(str::to_owned);
    let kib = meminfo.lines().find_map(line)?;
    let kib: u64 = kib.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns what the limits of the process's control group and of those above it leave.
fn left_by_control_groups() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let left = |line: &str| {
        let (version, folder) = folder_of(line)?;
        let ancestors = folder.ancestors();
        let within = ancestors.take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
        within.filter_map(|folder| version.left_in(folder)).min()
    };
    groups.lines().filter_map(left).min()
}

/// Returns the folder of the control group that a line of `/proc/self/cgroup` names, if it can limit the memory.
fn folder_of(line: &str) -> Option<(&'static Version, PathBuf)> {
    let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
    let version = match controllers {
        "" => &V2,
        "memory" => &V1,
        _ => return None,
    };
    // A group outside of the container's own view begins with `/..`.
    let group = group.trim_start_matches('/');
    let group = if group.starts_with("..") { "" } else { group };
    Some((version, Path::new(version.root).join(group)))
}

/// The names that a version of control groups has for a group's memory.
#[derive(Debug, PartialEq)]
struct Version {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The field of `memory.stat` with the pages of files that can be dropped, which count as free.
    droppable: &'static str,
}

const V1: Version = Version {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: "total_inactive_file",
};

const V2: Version = Version {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    droppable: "inactive_file",
};

impl Version {
    /// Returns what the limit of one group leaves; `None` if it has none.
    fn left_in(&self, folder: &Path) -> Option<u64> {
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let stat = text("memory.stat").unwrap_or_default();
        let mut fields = stat.lines().filter_map(|line| line.split_once(' '));
        let droppable = fields
            .find(|(name, _)| *name == self.droppable)
            .and_then(|(_, bytes)| bytes.trim().parse().ok())
            .unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(droppable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_parsed() {
        let text = "MemTotal:       16000000 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemAvailable: many kB"), None);
        assert_eq!(available(""), None);
        if cfg!(target_os = "linux") {
            assert!(free().is_some_and(|bytes| bytes > 0));
        }
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let folder = |line: &str| folder_of(line);
        let v2 = "0::/system.slice/wisp.service";
        let expected = "/sys/fs/cgroup/system.slice/wisp.service";
        assert_eq!(folder(v2), Some((&V2, expected.into())));
        assert_eq!(folder("0::/"), Some((&V2, V2.root.into())));
        assert_eq!(folder("0::/../../other"), Some((&V2, V2.root.into())));
        let v1 = "9:memory:/docker/a:b";
        let expected = "/sys/fs/cgroup/memory/docker/a:b";
        assert_eq!(folder(v1), Some((&V1, expected.into())));
        assert_eq!(folder("4:cpu,cpuacct:/docker"), None);
        assert_eq!(folder(""), None);
    }

    #[test]
    fn limit_leaves_what_is_not_used_or_can_be_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
        write("memory.current", "700\n").unwrap();
        write("memory.stat", "anon 600\ninactive_file 100\n").unwrap();
        write("memory.max", "max\n").unwrap();
        assert_eq!(V2.left_in(folder.path()), None);
        write("memory.max", "1000\n").unwrap();
        assert_eq!(V2.left_in(folder.path()), Some(400));
        assert_eq!(V1.left_in(folder.path()), None);
    }
}
