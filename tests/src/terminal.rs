//! Runs the program with a terminal as its standard output and standard error.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
};

use nix::{pty::openpty, sys::termios};

/// A program on a terminal.
#[derive(Debug)]
pub struct OnTerminal {
    /// The running program.
    pub child: Child,
    /// The side of the terminal that a person types on and reads.
    pub person: File,
}

impl OnTerminal {
    /// Starts a prepared program of [`program::command`](crate::program::command) on a new terminal.
    pub fn start(mut command: Command) -> OnTerminal {
        let pair = openpty(None, None).expect("a terminal");
        let mut attributes = termios::tcgetattr(&pair.slave).expect("its attributes");
        attributes.output_flags.remove(termios::OutputFlags::OPOST);
        termios::tcsetattr(&pair.slave, termios::SetArg::TCSANOW, &attributes).expect("set");
        let side = || Stdio::from(pair.slave.try_clone().expect("a duplicate"));
        command.stdin(side()).stdout(side()).stderr(side());
        command.env("TERM", "xterm");
        let child = command.spawn().expect("wisp starts");
        OnTerminal {
            child,
            person: File::from(pair.master),
        }
    }

    /// Types a text.
    pub fn send(&mut self, text: &str) {
        self.person.write_all(text.as_bytes()).expect("typed");
    }

    /// Reads what the program shows until it shows `end`, or ends.
    pub fn read_until(&mut self, end: &str) -> String {
        let (mut shown, mut byte) = (Vec::new(), [0]);
        // Reading fails when the program has ended and nobody holds the other side.
        while !shown.ends_with(end.as_bytes()) && self.person.read(&mut byte).is_ok_and(|n| n > 0) {
            shown.extend(byte);
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Waits for the end. Returns what the program still shows, and its exit status.
    pub fn finish(mut self) -> (String, Option<i32>) {
        let mut shown = Vec::new();
        // It ends with an error; see above.
        let _ = self.person.read_to_end(&mut shown);
        let status = self.child.wait().expect("an end");
        (String::from_utf8_lossy(&shown).into_owned(), status.code())
    }
}

/// Runs a prepared program to its end. Returns all that it shows, and its exit status.
pub fn run(command: Command) -> (String, Option<i32>) {
    OnTerminal::start(command).finish()
}
