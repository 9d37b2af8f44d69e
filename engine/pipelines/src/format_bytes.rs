//! Numbers of bytes as people read them.

/// Formats a number of bytes in KiB, MiB or GiB, with one decimal.
pub fn format_bytes(bytes: u64) -> String {
    let mut value = bytes as f64 / 1024.0;
    let mut unit = "KiB";
    for next in ["MiB", "GiB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_a_thousand() {
        assert_eq!(format_bytes(512), "0.5 KiB");
        assert_eq!(format_bytes(999 << 10), "999.0 KiB");
        assert_eq!(format_bytes(1000 << 10), "1.0 MiB");
        assert_eq!(format_bytes(3 << 29), "1.5 GiB");
    }
}
