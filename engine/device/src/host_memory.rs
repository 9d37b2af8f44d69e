//! How much memory the host has left.

/// Bytes that programs can take without swapping, as Linux counts them, also inside a container.
/// `None` on other systems.
pub(crate) fn free_memory() -> Option<u64> {
    let free = available(&read("/proc/meminfo")?)?;
    Some(free.min(container().unwrap_or(u64::MAX)))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = |line: &str| line.strip_prefix("MemAvailable:").map(str::to_owned);
    let kib = meminfo.lines().find_map(line)?;
    let kib: u64 = kib.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What a control group's limit leaves; pages of files that can be dropped count as free.
fn container() -> Option<u64> {
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
    fn meminfo_is_read() {
        let text = "MemTotal:       16000000 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemAvailable: many kB"), None);
        assert_eq!(available(""), None);
        if cfg!(target_os = "linux") {
            assert!(free_memory().is_some_and(|bytes| bytes > 0));
        }
    }
}
