//! Standard input and output, each in a thread of its own: whoever reads or writes slowly must not delay a packet.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use weir_protocol::{Command, Message, Outbox};
use weir_run::Column;

/// What arrives on standard input.
pub enum Input {
    /// A command.
    Command(Command),
    /// A line that is none; the text says what is wrong.
    Bad(String),
    /// Nobody is there any more.
    End,
}

/// Commands as they arrive.
pub struct Inbox {
    wake: OwnedFd,
    receiver: Receiver<Input>,
}

impl Inbox {
    /// Begins to read `input`.
    ///
    /// # Errors
    /// When the system has no descriptor or thread left.
    pub fn new(mut input: impl BufRead + Send + 'static) -> io::Result<Inbox> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let mut waker = File::from(wake.try_clone()?);
        let (sender, receiver) = channel();
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut line = String::new();
            loop {
                line.clear();
                let input = match input.read_line(&mut line) {
                    Ok(0) | Err(_) => Input::End,
                    Ok(_) => match serde_json::from_str(&line) {
                        Ok(command) => Input::Command(command),
                        Err(error) => Input::Bad(format!("standard input: {error}")),
                    },
                };
                let is_end = matches!(input, Input::End);
                if sender.send(input).is_err() || waker.write_all(&1u64.to_ne_bytes()).is_err() || is_end {
                    return;
                }
            }
        })?;
        Ok(Inbox { wake, receiver })
    }

    /// The descriptor that becomes readable when something arrives.
    pub fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    /// Makes the descriptor unreadable until something else arrives.
    ///
    /// # Errors
    /// From the system; none is expected.
    pub fn forget_wake(&self) -> io::Result<()> {
        match rustix::io::read(&self.wake, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What arrived next, if anything did.
    pub fn next(&self) -> Option<Input> {
        self.receiver.try_recv().ok()
    }
}

enum Item {
    Message(Message),
    Table(&'static str, Vec<(&'static str, Column)>),
}

/// Messages on their way to standard output.
pub struct Reporter {
    sender: Option<Sender<Item>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Reporter {
    /// Writes to `out`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Reporter> {
        let (sender, receiver) = channel::<Item>();
        let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            let mut outbox = Outbox::new(out);
            for item in receiver {
                match item {
                    Item::Message(message) => outbox.send(&message)?,
                    Item::Table(name, columns) => outbox.table(name, &columns)?,
                }
            }
            Ok(())
        })?;
        Ok(Reporter { sender: Some(sender), thread: Some(thread) })
    }

    /// Sends a message. If nobody reads, the end of standard input tells so as well.
    pub fn send(&self, message: Message) {
        self.put(Item::Message(message));
    }

    /// Sends rows of a table.
    pub fn table(&self, name: &'static str, columns: Vec<(&'static str, Column)>) {
        self.put(Item::Table(name, columns));
    }

    fn put(&self, item: Item) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(item);
        }
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// From the stream.
    pub fn finish(mut self) -> io::Result<()> {
        self.sender = None;
        let thread = self.thread.take().expect("it ends once");
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer of standard output failed")))
    }
}
