"""Reading of captures that the API and the command line share; not public."""
