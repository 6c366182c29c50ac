//! Storage of values that few packets carry: a packet has room for the place of one only.

/// Values at places, which are reused.
pub(crate) struct Slab<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    /// Stores a value; returns its place.
    #[inline]
    pub fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.values[place as usize] = value;
                place
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        }
    }

    /// The value at a place.
    #[inline]
    pub fn get(&self, place: u32) -> T {
        self.values[place as usize]
    }

    /// The value at a place, mutable.
    #[inline]
    pub fn get_mut(&mut self, place: u32) -> &mut T {
        &mut self.values[place as usize]
    }

    /// Removes a value.
    #[inline]
    pub fn take(&mut self, place: u32) -> T {
        self.free.push(place);
        self.values[place as usize]
    }
}
