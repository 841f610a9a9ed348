"""The interpreter ring: what approved code may import, start and reach, compiled per executor."""
