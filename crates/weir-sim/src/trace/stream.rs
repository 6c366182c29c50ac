//! Positions of a connection's segments in its byte stream.
//!
//! Nearly all segments have one size, so runs of segments of equal size are a compact record.

#[derive(Clone, Copy, Debug)]
struct Run {
    segment: u64,
    byte: u64,
    len: u32,
}

/// The segments of a connection sent so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteStream {
    runs: Vec<Run>,
    next_segment: u64,
    next_byte: u64,
}

impl ByteStream {
    /// The next new segment.
    pub fn next_segment(&self) -> u64 {
        self.next_segment
    }

    /// Adds segment `number` of `len` bytes, unless it is a retransmission.
    pub fn sent(&mut self, number: u64, len: u32) {
        if number < self.next_segment {
            return;
        }
        if self.runs.last().is_none_or(|run| run.len != len) {
            self.runs.push(Run { segment: self.next_segment, byte: self.next_byte, len });
        }
        self.next_segment += 1;
        self.next_byte += u64::from(len);
    }

    /// First byte of a segment; for one not sent yet, the end of the stream so far.
    pub fn byte(&self, segment: u64) -> u64 {
        if segment >= self.next_segment {
            return self.next_byte;
        }
        let run = self.runs[self.runs.partition_point(|run| run.segment <= segment) - 1];
        run.byte + (segment - run.segment) * u64::from(run.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_lie_one_after_the_other() {
        let mut stream = ByteStream::default();
        let lens = [100, 100, 30, 100, 100, 1];
        for (number, len) in lens.into_iter().enumerate() {
            stream.sent(number as u64, len);
            stream.sent(0, 100);
        }
        let bytes: Vec<u64> = (0..8).map(|segment| stream.byte(segment)).collect();
        assert_eq!(bytes, [0, 100, 200, 230, 330, 430, 431, 431]);
    }
}
