//! Standard input and output of the protocol.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::fcntl_setpipe_size;
use weir_protocol::{Message, Outbox, append_table};
use weir_run::Column;
use weir_sys::{set_nonblocking, would_block};

/// Messages on their way to standard output. Messages that the pipe does not take at once wait here, so that a slow
/// reader does not delay the traffic.
pub struct Output {
    file: File,
    backlog: Vec<u8>,
    written: usize,
}

impl Output {
    /// Writes to `fd`, usually standard output.
    ///
    /// # Errors
    /// The descriptor is closed.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Output> {
        let file = File::from(fd.try_clone_to_owned()?);
        if is_pipe(&file)? {
            make_roomy(&file)?;
        }
        Ok(Output { file, backlog: Vec::new(), written: 0 })
    }

    /// Appends a message.
    pub fn send(&mut self, message: &Message) {
        Outbox::new(&mut self.backlog).send(message).expect("memory takes it");
    }

    /// Appends rows of a table, if there are any.
    pub fn table(&mut self, name: &str, columns: &[(&'static str, Column)]) {
        append_table(&mut self.backlog, name, columns);
    }

    /// Appends a file.
    pub fn file(&mut self, name: &str, content: &[u8]) {
        Outbox::new(&mut self.backlog).file(name, content).expect("memory takes it");
    }

    /// Writes as much as the reader takes now; true if nothing is left.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn pump(&mut self) -> io::Result<bool> {
        while self.written < self.backlog.len() {
            match self.file.write(&self.backlog[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.backlog.clear();
        self.written = 0;
        Ok(true)
    }

    /// Writes everything; waits for the reader.
    ///
    /// # Errors
    /// The reader is gone.
    pub fn finish(&mut self) -> io::Result<()> {
        while !self.pump()? {
            // An interrupted wait is repeated.
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None);
        }
        Ok(())
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_pipe(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(file.metadata()?.file_type().is_fifo())
}

/// Makes writes to a pipe return at once, and its buffer a megabyte if the kernel allows it.
fn make_roomy(file: &File) -> io::Result<()> {
    // The default size works too, with more wake-ups.
    let _ = fcntl_setpipe_size(file, 1 << 20);
    set_nonblocking(file)
}

/// Lines of standard input.
pub struct Input {
    file: File,
    buffer: Vec<u8>,
    ended: bool,
}

impl Input {
    /// Reads from `fd`, usually standard input.
    ///
    /// # Errors
    /// The descriptor is closed.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Input> {
        Ok(Input { file: File::from(fd.try_clone_to_owned()?), buffer: Vec::new(), ended: false })
    }

    /// Reads once; waits if nothing is there.
    ///
    /// # Errors
    /// From the stream.
    pub fn read(&mut self) -> io::Result<()> {
        let mut part = [0; 65536];
        let bytes = match self.file.read(&mut part) {
            Err(error) if would_block(&error) => return Ok(()),
            other => other?,
        };
        self.ended = bytes == 0;
        self.buffer.extend_from_slice(&part[..bytes]);
        Ok(())
    }

    /// The next complete line, without its end.
    pub fn line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|&byte| byte == b'\n')?;
        let line = self.buffer.drain(..=end).collect::<Vec<_>>();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Whether the parent has closed the stream.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
