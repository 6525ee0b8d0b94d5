//! File operations shared by the live disks: resolve the path, then call its root.

/// Implements the file operations of [`super::Disk`]. The disk's `run` passes its inner value to a blocking thread. The
/// inner value has `place` (root and relative path of a path) and `mounts`.
macro_rules! file_operations {
    () => {
        fn usage<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Usage> {
            let path = path.to_owned();
            self.run(move |disk| disk.usage(&path))
        }

        fn make_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
            let path = path.to_owned();
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.make_dirs(&place)
            })
        }

        fn remove_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
            let path = path.to_owned();
            self.run(move |disk| {
                let absolute = disk.root.absolute(&path)?;
                if disk.mounts()?.iter().any(|m| m.path == absolute) {
                    let by = "something is mounted there".to_owned();
                    return Err(DiskError::Busy { volume: path.display().to_string(), by });
                }
                let (root, place) = disk.place(&path)?;
                root.remove_dir(&place).map(drop)
            })
        }

        fn list_dir<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<String>>> {
            let path = path.to_owned();
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.list(&place)
            })
        }

        fn append<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
            let (path, data) = (path.to_owned(), data.to_owned());
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.append(&place, &data)
            })
        }

        fn write<'a>(&'a self, path: &'a Path, data: &'a [u8]) -> DiskFuture<'a, ()> {
            let (path, data) = (path.to_owned(), data.to_owned());
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.write(&place, &data)
            })
        }

        fn sync<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
            let path = path.to_owned();
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.sync(&place)
            })
        }

        fn read<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, Option<Vec<u8>>> {
            let path = path.to_owned();
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.read(&place)
            })
        }

        fn remove_file<'a>(&'a self, path: &'a Path) -> DiskFuture<'a, ()> {
            let path = path.to_owned();
            self.run(move |disk| {
                let (root, place) = disk.place(&path)?;
                root.remove_file(&place).map(drop)
            })
        }
    };
}

pub(super) use file_operations;
