//! Map with paths as keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Values by path, in the order of the paths' components. Paths are absolute, normalized and without NUL.
///
/// Keys are bytes with NUL for each slash: so byte order is component order, and a comparison does not split the path.
#[derive(Debug)]
pub(super) struct Tree<T>(BTreeMap<Vec<u8>, T>);

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

fn key(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().map(|b| if *b == b'/' { 0 } else { *b }).collect()
}

fn text(key: &[u8]) -> String {
    let bytes = key.iter().map(|b| if *b == 0 { b'/' } else { *b }).collect();
    // One byte replaces one ASCII byte, so the text stays valid UTF-8.
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Returns the parent key; None for the root.
fn above(key: &[u8]) -> Option<&[u8]> {
    match key.iter().rposition(|b| *b == 0)? {
        0 if key.len() == 1 => None,
        0 => Some(&key[..1]),
        at => Some(&key[..at]),
    }
}

impl<T> Tree<T> {
    pub fn get(&self, path: &Path) -> Option<&T> {
        self.0.get(&*key(path))
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.get(path).is_some()
    }

    pub fn insert(&mut self, path: &Path, value: T) {
        self.0.insert(key(path), value);
    }

    pub fn remove(&mut self, path: &Path) {
        self.0.remove(&*key(path));
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the value at `path`; inserts one if there is none.
    pub fn get_or_insert_with(&mut self, path: &Path, make: impl FnOnce() -> T) -> &mut T {
        self.0.entry(key(path)).or_insert_with(make)
    }

    /// Returns the value at the path itself or its nearest ancestor, and the rest of the path below that.
    pub fn nearest(&self, path: &Path) -> Option<(&T, String)> {
        if self.0.is_empty() {
            return None;
        }
        let whole = key(path);
        let mut at = Some(&*whole);
        while let Some(base) = at {
            if let Some(value) = self.0.get(base) {
                let below = whole[base.len()..].strip_prefix(&[0]).unwrap_or(&whole[base.len()..]);
                return Some((value, text(below)));
            }
            at = above(base);
        }
        None
    }

    /// Inserts values from `path` upwards, without the root, until `put` reports an existing one. An error comes with
    /// its path.
    pub fn fill_upwards(
        &mut self,
        path: &Path,
        value: impl Fn() -> T,
        is_end: impl Fn(&T) -> bool,
    ) -> Result<(), PathBuf> {
        let whole = key(path);
        let mut at = Some(&*whole).filter(|key| key.len() > 1);
        while let Some(base) = at {
            match self.0.get(base) {
                Some(there) if is_end(there) => return Ok(()),
                Some(_) => return Err(text(base).into()),
                None => {
                    self.0.insert(base.to_vec(), value());
                }
            }
            at = above(base).filter(|key| key.len() > 1);
        }
        Ok(())
    }

    /// Returns the names directly below `path`, in order.
    pub fn names_below(&self, path: &Path) -> impl Iterator<Item = String> {
        let mut prefix = key(path);
        if prefix.last() != Some(&0) {
            prefix.push(0);
        }
        let inside = self.0.range(prefix.clone()..).map(|(key, _)| key);
        inside.map_while(move |key| key.strip_prefix(&*prefix).map(<[u8]>::to_vec)).filter_map(|name| {
            let direct = !name.is_empty() && !name.contains(&0);
            direct.then(|| String::from_utf8_lossy(&name).into_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Tree<usize> {
        Tree(paths.iter().enumerate().map(|(i, p)| (key(Path::new(p)), i)).collect())
    }

    #[test]
    fn the_order_is_that_of_components() {
        let paths = ["/", "/a", "/a/b", "/a/b/c", "/a-b", "/a.b/c", "/ab"];
        let tree = tree(&paths);
        let kept: Vec<PathBuf> = tree.0.keys().map(|key| text(key).into()).collect();
        let mut sorted = kept.clone();
        sorted.sort();
        assert_eq!(kept, sorted);
        assert_eq!(tree.values().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_nearest_value_comes_with_the_path_below_it() {
        let tree = tree(&["/a", "/a/b"]);
        let nearest = |path: &str| tree.nearest(Path::new(path)).map(|(value, below)| (*value, below));
        assert_eq!(nearest("/a/b/c/d"), Some((1, "c/d".to_owned())));
        assert_eq!(nearest("/a/bc"), Some((0, "bc".to_owned())));
        assert_eq!(nearest("/a"), Some((0, String::new())));
        assert_eq!(nearest("/b"), None);
        assert_eq!(self::tree(&["/"]).nearest(Path::new("/x/y")), Some((&0, "x/y".to_owned())));
    }

    #[test]
    fn names_are_those_directly_below() {
        let tree = tree(&["/", "/a", "/a/b", "/a/b/c", "/a/d", "/a-b/x", "/e"]);
        let names = |path: &str| tree.names_below(Path::new(path)).collect::<Vec<_>>();
        assert_eq!(names("/a"), ["b", "d"]);
        assert_eq!(names("/"), ["a", "e"]);
        assert!(names("/a/d").is_empty());
    }

    #[test]
    fn values_are_put_up_to_one_that_ends_it() {
        let mut tree = Tree::default();
        tree.insert(Path::new("/a"), 0);
        assert_eq!(tree.fill_upwards(Path::new("/a/b/c"), || 0, |v| *v == 0), Ok(()));
        assert!(tree.contains(Path::new("/a/b")) && tree.contains(Path::new("/a/b/c")));
        tree.insert(Path::new("/f"), 1);
        assert_eq!(tree.fill_upwards(Path::new("/f/g"), || 0, |v| *v == 0), Err(PathBuf::from("/f")));
        assert!(!tree.contains(Path::new("/")));
    }
}
