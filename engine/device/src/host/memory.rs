//! How much memory the host has left.

/// Returns the bytes that programs can take without swapping, as Linux counts them, within a container
/// too; `None` on other systems.
pub(crate) fn free() -> Option<u64> {
    let free = available(&read("/proc/meminfo")?)?;
    Some(free.min(left_by_control_group().unwrap_or(u64::MAX)))
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

/// Returns what the limit of the process's control group leaves; pages of files that can be dropped count
/// as free.
fn left_by_control_group() -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = read(&format!("/sys/fs/cgroup/memory.{name}"))?;
        text.trim().parse().ok()
    };
    let (limit, used) = (number("max")?, number("current")?);
    let stat = read("/sys/fs/cgroup/memory.stat").unwrap_or_default();
    let droppable = stat
        .lines()
        .find_map(|line| line.strip_prefix("inactive_file "))
        .and_then(|bytes| bytes.trim().parse().ok())
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
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
}
