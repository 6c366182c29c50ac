//! Standard input and output, each in a thread of its own, so that slow readers and writers delay no packet.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use weir_protocol::{Command, Message, Outbox};
use weir_run::Column;

/// An item of standard input.
pub enum Input {
    /// A command.
    Command(Command),
    /// A line that is not a command; the text says why.
    Bad(String),
    /// The end: the parent is gone.
    End,
}

/// The commands of standard input.
pub struct Inbox {
    wake: OwnedFd,
    receiver: Receiver<Input>,
}

impl Inbox {
    /// Starts a thread that reads `input`.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
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

    /// The next item, if one has arrived.
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
    /// Starts a thread that writes to `out`.
    ///
    /// # Errors
    /// The system has no thread left.
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

    /// Sends a message. A missing reader is noticed by the end of standard input.
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

    /// Waits until everything is written.
    ///
    /// # Errors
    /// From the stream.
    pub fn finish(mut self) -> io::Result<()> {
        self.sender = None;
        let thread = self.thread.take().expect("it ends once");
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer of standard output failed")))
    }
}
