"""Reading and writing within bounds: documents, private files, outputs, trusted folders, URLs."""
