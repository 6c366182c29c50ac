//! The drop curves of RED: the probability of a signal at an average queue, and the choice of packets.

use weir_units::Stream;

use super::RedCurve;

/// No curve serves this code point.
const NO_CURVE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    pub min: f64,
    max: f64,
    max_p: f64,
    /// Packets since the last signal; -1 if the next packet begins the count and cannot be chosen.
    pub count: i64,
    /// A draw of the start of the count: the packet at which `count p_b` reaches it is chosen.
    draw: f64,
}

impl Curve {
    pub fn from_plan(curve: &RedCurve) -> Curve {
        Curve { min: curve.min_bytes as f64, max: curve.max_bytes as f64, max_p: curve.max_p, count: -1, draw: 0.0 }
    }

    /// `p_b` at an average of at least the lower threshold; none if every packet is signalled.
    #[inline]
    pub fn probability(&self, average: f64, gentle: bool) -> Option<f64> {
        if average < self.max {
            Some(self.max_p * (average - self.min) / (self.max - self.min))
        } else if gentle && average < 2.0 * self.max {
            Some(self.max_p + (1.0 - self.max_p) * (average - self.max) / self.max)
        } else {
            None
        }
    }

    /// Whether this packet is chosen; the first of a count never is.
    #[inline]
    pub fn chooses(&mut self, p_b: f64, stream: &mut Stream) -> bool {
        self.count += 1;
        let chosen = self.count > 0 && self.count as f64 * p_b >= self.draw;
        if chosen {
            self.count = 0;
        }
        if self.count == 0 {
            self.draw = stream.unit();
        }
        chosen
    }
}

/// The class of each code point, and the curve of each class. The first range with a code point serves it; an empty
/// range serves the code points of no other one.
pub(super) fn classes(ranges: &[RedCurve]) -> ([u8; 64], Box<[Curve]>) {
    let mut curves: Vec<RedCurve> = Vec::new();
    let others = ranges.iter().find(|range| range.dscp_from > range.dscp_to);
    let class = std::array::from_fn(|dscp| {
        let holds = |range: &&RedCurve| (range.dscp_from..=range.dscp_to).contains(&(dscp as u8));
        let Some(range) = ranges.iter().find(holds).or(others) else { return NO_CURVE };
        let is_same = |curve: &RedCurve| {
            (curve.min_bytes, curve.max_bytes, curve.max_p) == (range.min_bytes, range.max_bytes, range.max_p)
        };
        let index = curves.iter().position(is_same).unwrap_or_else(|| {
            curves.push(*range);
            curves.len() - 1
        });
        index as u8
    });
    (class, curves.iter().map(Curve::from_plan).collect())
}
