"""Files: safe writing, checksums, marks of our own folders, and readers of other people's files.

Whatever is read here may be damaged or hostile: sizes are bounded, nothing is unpickled or unpacked
to disk, and an error names the file.
"""
