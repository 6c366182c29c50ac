//! The files of single packets, written in a thread of its own, so that a slow disk delays no packet.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_plan::Plan;
use weir_trace::{Files, Ordered, TraceRecord};
use weir_units::Time;

/// Records, and the instant before which no more will follow.
type Part = (Vec<TraceRecord>, Time);

/// The files of a trace.
pub struct Trace {
    sender: Sender<Part>,
    thread: JoinHandle<io::Result<()>>,
}

impl Trace {
    /// Creates the files of `weir_trace::FILES` at `paths`.
    ///
    /// # Errors
    /// A file cannot be created, or the system has no thread left.
    pub fn create(paths: &[PathBuf; 3], plan: Plan) -> io::Result<Trace> {
        let open = |path: &PathBuf| File::create(path).map(BufWriter::new);
        let files = Files::new([open(&paths[0])?, open(&paths[1])?, open(&paths[2])?])?;
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("trace".to_owned()).spawn(move || write(files, &plan, receiver))?;
        Ok(Trace { sender, thread })
    }

    /// Adds records; no others up to `until` will follow.
    pub fn add(&self, records: Vec<TraceRecord>, until: Time) {
        // A failure of the thread is reported at the end.
        let _ = self.sender.send((records, until));
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(self) -> io::Result<()> {
        self.add(Vec::new(), Time::MAX);
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer of the trace failed")))
    }
}

fn write(mut files: Files<BufWriter<File>>, plan: &Plan, parts: Receiver<Part>) -> io::Result<()> {
    let mut ordered = Ordered::default();
    for (records, until) in parts {
        ordered.add(records);
        files.write(&ordered.take(until), plan)?;
    }
    files.flush()
}
