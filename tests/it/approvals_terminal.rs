//! `approver approvals` at a real terminal: the question before a decision, and the bell.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::approvals_command::Desk;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the Ctrl and D keys send: the end of the input.
const CTRL_D: &str = "\u{4}";

/// A command at a terminal of its own.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // One that has ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Starts a command whose streams are the terminal, but for its output if that is `piped`.
    fn start(mut command: Command, piped: bool) -> Self {
        // Nobody's controlling terminal: a signal of the tests' own terminal is not ours.
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let flags = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        let mut options = OpenOptions::new();
        let line = options.read(true).write(true).custom_flags(flags).open(name).unwrap();
        command.stdin(line.try_clone().unwrap()).stderr(line.try_clone().unwrap());
        command.stdout(if piped { Stdio::piped() } else { line.into() });
        let child = command.spawn().unwrap();
        // The command's own copies are closed with it; then the screen ends with the child.
        drop(command);
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 1024];
            // The end is an error where the terminal has nobody on the other side any more.
            while let Ok(read @ 1..) = reader.read(&mut part) {
                if sender.send(part[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new() }
    }

    /// Waits until the screen shows this.
    #[track_caller]
    fn until(&mut self, text: &str) {
        while !self.shown.contains(text) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(part) => self.shown.push_str(&String::from_utf8_lossy(&part)),
                Err(error) => panic!("{error}: no {text:?} in {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end: exit code, screen, and what went into a pipe.
    fn ended(mut self) -> (Option<i32>, String, String) {
        let mut output = String::new();
        if let Some(mut piped) = self.child.stdout.take() {
            piped.read_to_string(&mut output).unwrap();
        }
        while let Ok(part) = self.screen.recv_timeout(PATIENCE) {
            self.shown.push_str(&String::from_utf8_lossy(&part));
        }
        let code = self.child.wait().unwrap().code();
        (code, std::mem::take(&mut self.shown), output)
    }
}

/// Decides at a terminal with these keys, once asked; what the command printed after the question.
async fn decided(desk: &Desk, decision: &str, keys: &'static str) -> (Option<i32>, String) {
    let raised = desk.world.waiting().await;
    let command = desk.command(&format!("{decision} {}", raised.id));
    let (id, question) = (raised.id.clone(), format!("{decision} this call? [y/N] "));
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(command, true);
        terminal.until(&question);
        // Who is asked has the call before the eyes.
        for part in [id.as_str(), "note_add (write)", "C-1042"] {
            assert!(terminal.shown.contains(part), "{}", terminal.shown);
        }
        terminal.press(keys);
        terminal.ended()
    });
    let (code, screen, output) = ended.await.unwrap();
    assert!(!screen.contains("nothing was decided"), "the question and the answer are apart");
    assert!(output.is_empty() || output.ends_with('\n'), "{output:?}");
    let status = desk.world.status(&raised).await;
    (code, format!("{status}: {}", output.replace(&raised.id, "apreq_1")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_yes_decides() {
    for keys in ["\n", CTRL_D, "n\n", "no\n", "yy\n", "approve\n", " \n"] {
        let desk = Desk::open().await;
        let (code, end) = decided(&desk, "approve", keys).await;
        let expected = "pending: nothing was decided\n";
        assert_eq!((code, end.as_str()), (Some(0), expected), "{keys:?}");
    }
    for keys in ["y\n", "Y\n", "yes\n", " y \n"] {
        let desk = Desk::open().await;
        let (code, end) = decided(&desk, "approve", keys).await;
        let expected = "approved: apreq_1 approved, must start by 2027-01-15T08:05:00Z\n";
        assert_eq!((code, end.as_str()), (Some(0), expected), "{keys:?}");
    }
    let desk = Desk::open().await;
    let (code, end) = decided(&desk, "reject", "y\n").await;
    assert_eq!((code, end.as_str()), (Some(0), "rejected: apreq_1 rejected\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_approves_later_calls_too_is_asked_about_them() {
    let desk = Desk::open().await;
    let raised = desk.world.waiting().await;
    let command = desk.command(&format!("approve {} --remember", raised.id));
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(command, false);
        terminal.until("and all later calls of the tool in this conversation? [y/N] ");
        terminal.press(CTRL_D);
        terminal.ended()
    });
    let (code, screen, _) = ended.await.unwrap();
    assert_eq!(code, Some(0));
    assert!(screen.ends_with("nothing was decided\r\n"), "{screen:?}");
    assert_eq!(desk.world.status(&raised).await, "pending");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bell_rings_at_a_terminal_and_in_no_pipe() {
    let desk = Desk::open().await;
    let raised = desk.world.waiting().await;
    let watch = async |arguments: &str, piped: bool| {
        let command = desk.command(arguments);
        let ended = tokio::task::spawn_blocking(move || Terminal::start(command, piped).ended());
        let (code, screen, output) = ended.await.unwrap();
        assert_eq!(code, Some(0), "{screen}");
        let all = screen + &output;
        assert!(all.contains(&raised.id), "{all:?}");
        all
    };
    let bells = |text: &str| text.matches('\u{7}').count();
    let shown = watch("watch --count 1", false).await;
    assert_eq!(bells(&shown), 1, "{shown:?}");
    assert!(shown.starts_with(&format!("\u{7}{}", raised.id)), "{shown:?}");
    for (arguments, piped) in
        [("watch --count 1", true), ("watch --count 1 --json", false), ("list", false)]
    {
        let shown = watch(arguments, piped).await;
        assert_eq!(bells(&shown), 0, "{arguments}: {shown:?}");
    }
}
