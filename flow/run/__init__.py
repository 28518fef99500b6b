"""What every long command needs: files, caches, processes, progress, options."""
