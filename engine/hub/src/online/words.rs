//! Text from servers and libraries, made fit for error messages.

/// Returns the innermost cause of an error as one line. The errors around it only say that a
/// request failed.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    one_line(&root.to_string())
}

/// Makes text from elsewhere fit for one line of a terminal.
pub(super) fn one_line(text: &str) -> String {
    const MAX_CHARACTERS: usize = 300;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_CHARACTERS)
        .collect();
    line.trim().to_string()
}
